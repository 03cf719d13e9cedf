//! Rows in chains of heap pages (`page_chain.cuh`): a warp reserves space for its live rows of a step, and
//! its threads write them. Nothing is sized for the worst case or counted beforehand, and the host is
//! involved only if the heap is exhausted.
//!
//! A row consists of a few 64-bit words; outputs narrower than a word and validity bits share words. Blocks
//! commit rows by morsel. If no page is available, the whole morsel is repeated.

use super::statements::CHAINS;
use super::{Geometry, Sink};
use crate::output::{OutputColumn, OutputForm};
use galatea_expression::code::{Code, line};

/// Maximum number of rows that the lanes of a warp reserve at once; a page holds at least this number.
pub const WARP_ROWS: u64 = 32 * 16;

/// Location of an output or its validity bit in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// First word.
    pub word: usize,
    /// Lowest bit in it.
    pub bit: u32,
}

/// Layout of the outputs in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowLayout {
    /// For each output, the value and, if nullable, the validity bit.
    pub fields: Vec<(Field, Option<Field>)>,
    /// Number of words of a row.
    pub words: usize,
}

impl RowLayout {
    /// The layout of these outputs: wide ones first, so that no output is split across words unless it fills
    /// them.
    pub fn new(outputs: &[OutputColumn]) -> Self {
        let mut end = 0u32;
        let mut take = |bits: u32| {
            let field = Field {
                word: (end / 64) as usize,
                bit: end % 64,
            };
            end += bits;
            field
        };
        let mut order: Vec<usize> = (0..outputs.len()).collect();
        order.sort_by_key(|k| std::cmp::Reverse(outputs[*k].row_bytes()));
        let mut values = vec![None; outputs.len()];
        for k in order {
            values[k] = Some(take(8 * outputs[k].row_bytes() as u32));
        }
        let fields = (outputs.iter().zip(values))
            .filter_map(|(output, value)| Some((value?, output.nullable().then(|| take(1)))))
            .collect();
        Self {
            fields,
            words: end.div_ceil(64).max(1) as usize,
        }
    }
}

/// Stores rows in heap pages.
#[derive(Debug)]
pub(crate) struct ChainsSink {
    pub(crate) outputs: Vec<OutputColumn>,
}

impl Sink for ChainsSink {
    fn headers(&self) -> &'static [&'static str] {
        &["page_chain"]
    }

    fn steps(&self) -> u32 {
        1
    }

    fn prologue(&self, _: Geometry, code: &mut Code) {
        code.lines(CHAINS);
        line!(
            code,
            "const u32 page_rows = chains.page_rows;
ChainWriter<{}> writer(chains, chain_state);
bool stopped = false;",
            RowLayout::new(&self.outputs).words
        );
    }

    fn resumed_morsel(&self) -> Option<&'static str> {
        Some("u32(writer.first_morsel(args.first_morsel + blockIdx.x))")
    }

    fn begin_morsel(&self, code: &mut Code) {
        code.lines("const u32 passed_before = passed;\nwriter.begin_morsel();");
    }

    /// Reserves space for the live rows of a step.
    fn before_rows(&self, code: &mut Code) {
        code.lines("const auto places = writer.reserve_rows(0xffffffffu, __popc(live));\nu32 taken = 0;");
    }

    fn row(&self, code: &mut Code) {
        let layout = RowLayout::new(&self.outputs);
        let mut words: Vec<Vec<String>> = vec![Vec::new(); layout.words];
        for ((k, output), (field, valid)) in self.outputs.iter().enumerate().zip(&layout.fields) {
            let (value, null) = &output.code;
            // The bits of the value, zero-extended.
            let bits = match &output.form {
                OutputForm::Integer { width: 4 } => format!("u64(u32(i32({value})))"),
                OutputForm::Integer { width: 8 } => format!("u64(i64({value}))"),
                OutputForm::Integer { .. } => format!("u128(i128({value}))"),
                OutputForm::Boolean => format!("u64({value} ? 1 : 0)"),
                OutputForm::Float32 => format!("u64(__float_as_uint({value}))"),
                OutputForm::Float64 => format!("u64(__double_as_longlong({value}))"),
                OutputForm::Code { .. } => format!("u64(u32({value}))"),
                OutputForm::Row(_) => format!("u64({value})"),
            };
            if output.row_bytes() == 16 {
                line!(code, "const u128 wide{k} = {bits};");
                words[field.word].push(format!("u64(wide{k})"));
                words[field.word + 1].push(format!("u64(wide{k} >> 64)"));
            } else {
                words[field.word].push(format!("({bits} << {})", field.bit));
            }
            if let (Some(null), Some(valid)) = (null, valid) {
                words[valid.word].push(format!("(({null} ? 0ull : 1ull) << {})", valid.bit));
            }
        }
        code.lines("u64* const to = writer.row_of(places, taken++);\nif (to != nullptr) {");
        for (w, parts) in words.iter().enumerate() {
            let value = match parts.is_empty() {
                true => "0ull".to_string(),
                false => parts.join(" | "),
            };
            line!(code, "    to[u64({w}) * page_rows] = {value};");
        }
        code.lines("}");
    }

    fn end_morsel(&self, code: &mut Code) {
        code.lines("if (!writer.end_morsel(morsel)) { passed = passed_before; stopped = true; break; }");
    }

    fn epilogue(&self, _: Geometry, code: &mut Code) {
        code.lines("if (!stopped) writer.finish(morsel);");
    }
}
