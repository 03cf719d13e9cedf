//! Build sides: each row is stored in arrays at its key's distance from the least one, with a bit that says it is there.
//!
//! ```text
//! args.groups           a bit per index: whether a row has it
//! args.outputs[k]       the entries of column k
//! args.outputs[N/2 + k] a bit per index: whether column k is NULL there
//! ```
//!
//! Nothing is waited for and nothing can be full. Where keys must be unique, the host compares the number of bits with that of the rows
//! afterwards: of two rows of one key either may have won, but then nobody reads the arrays.

use super::super::generate::SinkFrame;
use crate::expression::{BuiltColumn, Dimension, Emitter, Expr, Interval, Value};
use crate::reason::Reason;
use galatea_kernels::MAX_OUTPUTS;
use std::fmt::Write;

/// A build side as a pipeline makes it.
#[derive(Debug, Clone)]
pub struct BuildPlan {
    /// The keys there can be.
    pub(crate) keys: Interval,
    /// Its columns, in the order of the outputs.
    pub(crate) columns: Vec<BuiltColumn>,
    /// Whether no two rows may have the same key.
    pub(crate) unique: bool,
}

impl BuildPlan {
    /// Number of indices.
    pub fn indices(&self) -> u64 {
        (self.keys.high - self.keys.low + 1) as u64
    }

    /// Bytes of the arrays.
    pub fn bytes(&self) -> u64 {
        let bits = self.indices().div_ceil(8);
        let column = |column: &BuiltColumn| {
            let nulls = if column.nullable { bits } else { 0 };
            self.indices().saturating_mul(column.width as u64) + nulls
        };
        bits + self.columns.iter().map(column).sum::<u64>()
    }

    /// What others look up.
    pub fn dimension(&self) -> Dimension {
        Dimension::built(self.keys, &self.columns)
    }
}

/// Emits what is done with a live row of a table of `rows` rows.
pub(in crate::pipeline) fn store(
    emitter: &mut Emitter<'_>,
    key: &Expr,
    columns: &[(usize, Expr)],
    unique: bool,
    rows: u64,
    code: &mut String,
) -> Result<BuildPlan, Reason> {
    let value = emitter.emit(key, code)?;
    let keys = value.interval();
    let size = keys.high.wrapping_sub(keys.low) as u128 + 1;
    Dimension::check_size("a key", u64::try_from(size).unwrap_or(u64::MAX), rows)?;
    let index = emitter.key_index(keys, &value, code);
    let mut built = Vec::new();
    for (k, (column, expression)) in columns.iter().enumerate() {
        let value = emitter.emit(expression, code)?;
        let column = BuiltColumn::new(*column, &value)?;
        store_value(k, &column, &value, &index, code);
        built.push(column);
    }
    let _ = writeln!(code, "present.set({index});");
    Ok(BuildPlan {
        keys,
        columns: built,
        unique,
    })
}

fn store_value(k: usize, column: &BuiltColumn, value: &Value, index: &str, code: &mut String) {
    let c_type = column.c_type;
    let _ = writeln!(
        code,
        "reinterpret_cast<{c_type}*>(args.outputs[{k}])[{index}] = {c_type}({});",
        value.code
    );
    if let Some(null) = &value.null {
        let nulls = MAX_OUTPUTS / 2 + k;
        let _ = writeln!(
            code,
            "if ({null}) atomicOr(reinterpret_cast<u32*>(args.outputs[{nulls}]) + ({index} >> 5), 1u << ({index} & 31u));"
        );
    }
}

/// The bits of the thread that are not written yet.
pub fn frame() -> SinkFrame {
    SinkFrame {
        headers: &["bit_run"],
        prologue: "BitRun present(reinterpret_cast<u32*>(args.groups));\n".into(),
        epilogue: "present.flush();\n".into(),
        ..SinkFrame::default()
    }
}
