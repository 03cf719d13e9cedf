//! Build sides: each row is stored in arrays at its key's distance from the least one, with a bit that says
//! it is there.
//!
//! ```text
//! args.groups           a bit per index: whether a row has it; where keys are far apart, a table of keys, whose slots are the indices
//! args.outputs[k]       the entries of column k
//! args.outputs[N/2 + k] a bit per index: whether column k is NULL there
//! ```
//!
//! Nothing is waited for and nothing can be full. Where keys must be unique, the host compares the number of
//! bits with that of the rows afterwards: of two rows of one key either may have won, but then nobody reads
//! the arrays.

use super::super::generate::SinkFrame;
use crate::expression::{BuiltColumn, Dimension, Emitter, Expr, GroupWords, Interval, KeySpace, Value};
use crate::reason::Reason;
use galatea_kernels::MAX_OUTPUTS;
use std::fmt::Write;

/// A build side as a pipeline makes it.
#[derive(Debug, Clone)]
pub struct BuildPlan {
    /// The possible keys.
    pub(crate) keys: KeySpace,
    /// Its columns, in the order of the outputs.
    pub(crate) columns: Vec<BuiltColumn>,
    /// Whether no two rows may have the same key.
    pub(crate) unique: bool,
}

impl BuildPlan {
    /// Number of indices.
    pub fn indices(&self) -> u64 {
        self.keys.indices()
    }

    /// Slots of its table of keys, if it has one.
    pub fn slots(&self) -> Option<u64> {
        self.keys.slots
    }

    /// Bytes of the arrays.
    pub fn bytes(&self) -> u64 {
        let bits = self.indices().div_ceil(8);
        let column = |column: &BuiltColumn| {
            let nulls = if column.nullable { bits } else { 0 };
            self.indices().saturating_mul(column.width as u64) + nulls
        };
        let presence = self.slots().map_or(bits, |slots| 8 * slots);
        presence + self.columns.iter().map(column).sum::<u64>()
    }

    /// What others look up.
    pub fn dimension(&self) -> Dimension {
        Dimension::built(&self.keys, &self.columns)
    }
}

/// Groups as a build side.
#[derive(Debug, Clone)]
pub struct GroupBuildPlan {
    /// The possible keys.
    pub(crate) keys: Interval,
    /// What is left of each group.
    pub(crate) words: GroupWords,
}

impl GroupBuildPlan {
    /// Words of all possible groups.
    pub fn words(&self) -> u64 {
        ((self.keys.high - self.keys.low + 1) as u64).saturating_mul(self.words.stride as u64)
    }

    /// What others look up.
    pub fn dimension(&self) -> Dimension {
        Dimension::grouped(self.keys, self.words.clone())
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
    let mut parts = Vec::new();
    for part in key.parts() {
        parts.push(emitter.emit(part, code)?);
    }
    let keys = KeySpace::new(parts.iter().map(Value::interval).collect(), rows)?;
    let number = emitter.key_number(&keys, &parts, code);
    let index = match keys.slots {
        None => format!("u32({number})"),
        Some(_) => format!("key_table_insert(args.groups, args.capacity - 1, {number}, inserted)"),
    };
    let _ = writeln!(code, "const u32 slot = {index};");
    let index = String::from("slot");
    let mut built = Vec::new();
    for (k, (column, expression)) in columns.iter().enumerate() {
        let value = emitter.emit(expression, code)?;
        let column = BuiltColumn::new(*column, &value)?;
        store_value(k, &column, &value, &index, code);
        built.push(column);
    }
    if keys.slots.is_none() {
        code.push_str("present.set(slot);\n");
    }
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

/// The bits of the thread that are not written yet, or the keys that it found to be new.
pub fn frame(plan: &BuildPlan) -> SinkFrame {
    if plan.slots().is_some() {
        return SinkFrame {
            headers: &["key_table"],
            prologue: "u32 inserted = 0;\n".into(),
            epilogue: "if (inserted != 0) atomicAdd(args.counters, (unsigned long long)inserted);\n".into(),
            ..SinkFrame::default()
        };
    }
    SinkFrame {
        headers: &["bit_run"],
        prologue: "BitRun present(reinterpret_cast<u32*>(args.groups));\n".into(),
        epilogue: "present.flush();\n".into(),
        ..SinkFrame::default()
    }
}
