//! Rows appended to output columns: a block counts its live rows of a step, reserves a run of output rows
//! with one atomic, and its threads write at their ranks. Blocks stop before a unit when the outputs are
//! nearly full.

use super::super::bind::{AccessForm, ColumnAccess};
use super::super::generate::SinkFrame;
use super::{SAVE_PROGRESS, STOP_WHEN_FULL};
use crate::expression::{Expr, Kind, Value};
use crate::reason::Reason;
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use galatea_kernels::MAX_OUTPUTS;
use std::fmt::Write;

/// One output column.
#[derive(Debug, Clone)]
pub struct OutputColumn {
    /// Type of the result column.
    pub data_type: DataType,
    /// What is written per row.
    pub form: OutputForm,
    /// C++ of the value and, for nullable columns, of its NULL flag.
    pub(super) code: (String, Option<String>),
}

/// What a row of an output column holds on the device.
#[derive(Debug, Clone)]
pub enum OutputForm {
    /// Sign-extended integer of 4, 8 or 16 bytes.
    Integer {
        /// Bytes.
        width: usize,
    },
    /// One byte.
    Boolean,
    /// Single.
    Float32,
    /// Double.
    Float64,
    /// Dictionary code, 4 bytes.
    Code {
        /// The dictionary.
        values: ArrayRef,
    },
    /// The row itself, `chunk << 32 | row`: the host gathers the text of that source column.
    Row {
        /// Kernel column.
        column: usize,
    },
}

impl OutputColumn {
    /// Bytes per row.
    pub fn row_bytes(&self) -> usize {
        match &self.form {
            OutputForm::Integer { width } => *width,
            OutputForm::Boolean => 1,
            OutputForm::Float32 | OutputForm::Code { .. } => 4,
            OutputForm::Float64 | OutputForm::Row { .. } => 8,
        }
    }

    /// Whether a validity byte is written per row.
    pub fn nullable(&self) -> bool {
        self.code.1.is_some()
    }
}

/// A text column that is output as it is; the host gathers its bytes by row.
pub fn text_column(expr: &Expr, columns: &[ColumnAccess]) -> Option<OutputColumn> {
    let column = expr.as_column()?;
    matches!(columns[column].form, AccessForm::Text { .. }).then(|| OutputColumn {
        data_type: expr.data_type().clone(),
        form: OutputForm::Row { column },
        code: ("(u64(cursor.index()) << 32 | (row + i))".into(), None),
    })
}

/// The output of a computed value.
pub fn column(index: usize, value: &Value) -> Result<OutputColumn, Reason> {
    let form = match &value.kind {
        Kind::Bool => OutputForm::Boolean,
        Kind::I32 => OutputForm::Integer { width: 4 },
        Kind::I64 => OutputForm::Integer { width: 8 },
        Kind::I128 => OutputForm::Integer { width: 16 },
        Kind::F32 => OutputForm::Float32,
        Kind::F64 => OutputForm::Float64,
        Kind::Code { values } => OutputForm::Code {
            values: values.clone(),
        },
        Kind::Text => {
            return Err(Reason::Expression {
                expression: format!("output {index}"),
                detail: "a computed text without a dictionary".into(),
            });
        }
    };
    Ok(OutputColumn {
        data_type: value.data_type.clone(),
        form,
        code: (value.code.clone(), value.null.clone()),
    })
}

/// Refuses more outputs than a pipeline can have.
pub(super) fn check_number(outputs: &[OutputColumn]) -> Result<(), Reason> {
    if outputs.len() > MAX_OUTPUTS / 2 {
        return Err(Reason::Limit {
            expression: "SELECT".into(),
            asked: outputs.len() as u64,
            limit: MAX_OUTPUTS as u64 / 2,
            unit: "output columns",
        });
    }
    Ok(())
}

/// Stores every output of a live row.
pub fn store(outputs: &[OutputColumn], code: &mut String) -> Result<(), Reason> {
    check_number(outputs)?;
    for (k, output) in outputs.iter().enumerate() {
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
        let _ = writeln!(
            code,
            "reinterpret_cast<{ctype}*>(args.outputs[{k}])[at] = {ctype}({value});"
        );
        if let Some(null) = null {
            let _ = writeln!(
                code,
                "args.outputs[{}][at] = {null} ? 0 : 1;",
                MAX_OUTPUTS / 2 + k
            );
        }
    }
    code.push_str("++at;\n");
    Ok(())
}

/// Reserves the block's rows of this step: `at` is the first of this thread.
pub const RESERVE: &str = "\
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
";

/// Shared words of the reservation, and the checks between units.
pub fn frame(block: u32) -> SinkFrame {
    SinkFrame {
        prologue: format!(
            "constexpr u32 warps = {}u;\n__shared__ u32 warp_rows[{}];\n__shared__ u64 first_row;\n",
            block / 32,
            block / 32
        ),
        unit: STOP_WHEN_FULL.into(),
        epilogue: SAVE_PROGRESS.into(),
        ..SinkFrame::default()
    }
}
