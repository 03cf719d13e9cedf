//! Rows appended to output columns: a block counts its live rows of a step, reserves a run of output rows
//! with one atomic, and its threads write at their ranks. Blocks stop before a morsel when the outputs are
//! nearly full.

use super::statements::{RESERVE, declare_reservation};
use super::{Geometry, Sink};
use crate::code::{Code, line};
use crate::pipeline::output::{OutputColumn, OutputForm};
use galatea_kernels::MAX_OUTPUTS;

/// Rows in output columns.
#[derive(Debug)]
pub(in crate::pipeline) struct AppendSink {
    pub(in crate::pipeline) outputs: Vec<OutputColumn>,
}

impl Sink for AppendSink {
    fn steps(&self) -> u32 {
        1
    }

    fn prologue(&self, geometry: Geometry, code: &mut Code) {
        declare_reservation(geometry, code);
    }

    /// Stops the block when the columns hold `limit` rows; the host makes room and resumes.
    fn begin_morsel(&self, code: &mut Code) {
        code.lines(
            "\
__shared__ u32 full;
__syncthreads();
if (threadIdx.x == 0) full = *reinterpret_cast<volatile unsigned long long*>(args.counters) >= args.limit ? 1u : 0u;
__syncthreads();
if (full != 0) break;
",
        );
    }

    /// Reserves the block's rows of this step: `at` is the first of this thread.
    fn before_rows(&self, code: &mut Code) {
        code.lines(RESERVE);
    }

    fn row(&self, code: &mut Code) {
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
if (threadIdx.x == 0) {
    args.progress[blockIdx.x] = morsel;
    if (morsel < args.end_morsel) args.counters[1] = 1;
}
",
        );
    }
}
