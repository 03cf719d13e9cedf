//! Rows appended to output columns: a block counts its live rows of a step, reserves a run of output rows
//! with one atomic, and its threads write at their ranks. Blocks stop before a morsel when the outputs are
//! nearly full.

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
        let warps = geometry.block / 32;
        line!(
            code,
            "constexpr u32 warps = {warps}u;\n__shared__ u32 warp_rows[{warps}];"
        );
        code.lines("__shared__ u64 first_row;");
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
        code.lines(
            "\
u64 at = 0;
{
    const u32 mine = __popc(live);
    const u32 lane = threadIdx.x & 31u;
    u32 upto = mine;
#pragma unroll
    for (int delta = 1; delta < 32; delta <<= 1) {
        const u32 other = __shfl_up_sync(0xffffffffu, upto, delta);
        if (lane >= delta) upto += other;
    }
    if (lane == 31) warp_rows[threadIdx.x >> 5] = upto;
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 total = 0;
        for (u32 w = 0; w < warps; ++w) { const u32 count = warp_rows[w]; warp_rows[w] = total; total += count; }
        first_row = total == 0 ? 0 : atomicAdd(args.counters, (unsigned long long)total);
    }
    __syncthreads();
    at = first_row + warp_rows[threadIdx.x >> 5] + upto - mine;
}
__syncthreads();
",
        );
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
                OutputForm::Row { .. } => "u64",
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
