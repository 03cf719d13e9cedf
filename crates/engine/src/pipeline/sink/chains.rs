//! Rows in chains of heap pages (`page_chain.cuh`): a warp reserves places for its live rows of a step, its
//! threads write them. No room for the worst case, no counting pass, and the host is asked only when the heap
//! runs dry.
//!
//! A row is a few 64-bit words; outputs narrower than a word, and validity bits, share words. Blocks commit
//! rows by unit, so that a unit that found no page is done again as a whole.

use super::super::generate::SinkFrame;
use super::CHAINS;
use super::append::{OutputColumn, OutputForm, check_number};
use crate::reason::Reason;
use std::fmt::Write;

/// Rows that the lanes of a warp reserve together at most: a page has room for as many.
pub const WARP_ROWS: u64 = 32 * 16;

/// Where an output, or its validity bit, lies in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// First word.
    pub word: usize,
    /// Lowest bit in it.
    pub bit: u32,
}

/// Places of the outputs in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowLayout {
    /// By output: the value, and the validity bit of nullable ones.
    pub fields: Vec<(Field, Option<Field>)>,
    /// Words of a row.
    pub words: usize,
}

impl RowLayout {
    /// The layout of these outputs: wide ones first, so that none crosses a word it does not fill.
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

/// Writes every output of a live row to its place.
pub fn store(outputs: &[OutputColumn], code: &mut String) -> Result<(), Reason> {
    check_number(outputs)?;
    let layout = RowLayout::new(outputs);
    let mut words: Vec<Vec<String>> = vec![Vec::new(); layout.words];
    for ((k, output), (field, valid)) in outputs.iter().enumerate().zip(&layout.fields) {
        let (value, null) = &output.code;
        // The bits of the value, zero extended.
        let bits = match &output.form {
            OutputForm::Integer { width: 4 } => format!("u64(u32(i32({value})))"),
            OutputForm::Integer { width: 8 } => format!("u64(i64({value}))"),
            OutputForm::Integer { .. } => format!("u128(i128({value}))"),
            OutputForm::Boolean => format!("u64({value} ? 1 : 0)"),
            OutputForm::Float32 => format!("u64(__float_as_uint({value}))"),
            OutputForm::Float64 => format!("u64(__double_as_longlong({value}))"),
            OutputForm::Code { .. } => format!("u64(u32({value}))"),
            OutputForm::Row { .. } => value.clone(),
        };
        if output.row_bytes() == 16 {
            let _ = writeln!(code, "const u128 wide{k} = {bits};");
            words[field.word].push(format!("u64(wide{k})"));
            words[field.word + 1].push(format!("u64(wide{k} >> 64)"));
        } else {
            words[field.word].push(format!("({bits} << {})", field.bit));
        }
        if let (Some(null), Some(valid)) = (null, valid) {
            words[valid.word].push(format!("(({null} ? 0ull : 1ull) << {})", valid.bit));
        }
    }
    code.push_str("u64* const to = writer.row_of(places, taken++);\nif (to != nullptr) {\n");
    for (w, parts) in words.iter().enumerate() {
        let value = if parts.is_empty() {
            "0ull".to_string()
        } else {
            parts.join(" | ")
        };
        let _ = writeln!(code, "    to[u64({w}) * page_rows] = {value};");
    }
    code.push_str("}\n");
    Ok(())
}

/// Reserves places for the live rows of a step.
pub const RESERVE: &str = "\
            const auto places = writer.reserve_rows(0xffffffffu, __popc(live));
            u32 taken = 0;
";

/// The block's chain, and the commit of units.
pub fn frame(outputs: &[OutputColumn]) -> SinkFrame {
    let words = RowLayout::new(outputs).words;
    SinkFrame {
        prologue: format!(
            "{CHAINS}const u32 page_rows = chains.page_rows;
ChainWriter<{words}> writer(chains, chain_state);
bool stopped = false;
"
        ),
        headers: &["page_chain"],
        first_unit: Some("u32 unit = u32(writer.first_tile(args.first_unit + blockIdx.x));"),
        unit: "const u32 passed_before = passed;\nwriter.begin_tile();\n".into(),
        unit_end: "if (!writer.end_tile(unit)) { passed = passed_before; stopped = true; break; }\n",
        epilogue: "if (!stopped) writer.finish(unit);\n".into(),
        ..SinkFrame::default()
    }
}
