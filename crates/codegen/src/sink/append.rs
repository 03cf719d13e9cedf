//! Rows appended to output columns: a warp counts its live rows of a step, reserves a run of output rows with
//! one atomic, and its lanes write at their ranks. A warp that finds the outputs nearly full stops before its
//! next morsel, so each warp then adds at most the rows of one morsel.
//!
//! Rows that are to be sorted, but may already be in order, keep their positions in the table.

use super::statements::RESERVE;
use super::{Geometry, Sink};
use crate::output::{OutputColumn, OutputForm};
use galatea_expression::code::{Code, line};
use galatea_kernels::MAX_OUTPUTS;

/// Appends rows to output columns.
#[derive(Debug)]
pub(crate) struct AppendSink {
    pub(crate) outputs: Vec<OutputColumn>,
    /// Whether every row passes and is written at its position in the table.
    pub(crate) in_order: bool,
}

impl Sink for AppendSink {
    fn steps(&self) -> u32 {
        1
    }

    fn prologue(&self, geometry: Geometry, code: &mut Code) {
        let warps = geometry.block / 32;
        line!(
            code,
            "const u32 warp = blockIdx.x * {warps}u + (threadIdx.x >> 5);\nbool full = false;"
        );
    }

    fn resumed_morsel(&self) -> Option<&'static str> {
        Some("args.resume ? args.progress[warp] : args.first_morsel + blockIdx.x")
    }

    /// Stops the warp when the columns hold `limit` rows. The host drains the columns and resumes.
    fn begin_morsel(&self, code: &mut Code) {
        code.lines("if (full) break;");
    }

    fn before_rows(&self, code: &mut Code) {
        code.lines(RESERVE);
        code.lines("full |= held >= args.limit;");
    }

    fn row(&self, code: &mut Code) {
        if self.in_order {
            code.lines("at = first_row + row + i;");
        }
        for (k, output) in self.outputs.iter().enumerate() {
            let ctype = match &output.form {
                OutputForm::Integer { width: 4 } => "i32",
                OutputForm::Integer { width: 8 } => "i64",
                OutputForm::Integer { .. } => "i128",
                OutputForm::Boolean => "u8",
                OutputForm::Float32 => "float",
                OutputForm::Float64 => "double",
                OutputForm::Code { .. } => "u32",
                OutputForm::Row(_) => "u64",
            };
            let (value, null) = &output.code;
            line!(
                code,
                "reinterpret_cast<{ctype}*>(args.outputs[{k}])[at] = {ctype}({value});"
            );
            if let Some(null) = null {
                let validity = MAX_OUTPUTS / 2 + k;
                line!(code, "args.outputs[{validity}][at] = {null} ? 0 : 1;");
            }
        }
        code.lines("++at;");
    }

    fn epilogue(&self, _: Geometry, code: &mut Code) {
        code.lines(
            "\
if ((threadIdx.x & 31u) == 0) {
    args.progress[warp] = morsel;
    if (morsel < args.end_morsel) args.counters[1] = 1;
}
",
        );
    }
}
