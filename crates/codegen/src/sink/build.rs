//! Build sides: each row is stored in arrays at the offset of its key from the least key. For indices without
//! a row, the entries of one column hold a sentinel. If no sentinel exists, or if reading only bits is
//! cheaper, a bitmap records the indices with a row.
//!
//! ```text
//! args.groups           without a sentinel: a bit per index, whether a row has it; for sparse keys: a table of keys, whose slots are the indices
//! args.outputs[k]       the entries of column k
//! args.outputs[N/2 + k] a bit per index: whether column k is NULL there
//! ```
//!
//! Rows are written independently of each other, and nothing can overflow. If keys must be unique, the host
//! afterwards compares the number of used indices with the number of rows. Of two rows with the same key
//! either may have been stored, but then the arrays are not read.

use super::{Geometry, Sink};
use crate::build_plan::BuildPlan;
use galatea_expression::code::{Code, line};
use galatea_expression::{BuiltColumn, Signal, Value};
use galatea_kernels::MAX_OUTPUTS;

/// Stores rows in arrays by key.
#[derive(Debug)]
pub(crate) struct BuildSink {
    pub(crate) plan: BuildPlan,
    /// C++ expression of the number of the row's key.
    pub(crate) number: String,
    /// The values of the plan's columns for the row.
    pub(crate) values: Vec<Value>,
}

impl Sink for BuildSink {
    fn headers(&self) -> &'static [&'static str] {
        match (self.plan.slots(), self.plan.marker) {
            (Some(_), _) => &["key_table"],
            (None, Some(_)) => &[],
            (None, None) => &["bit_run"],
        }
    }

    /// Declares the bits of the thread that are not written yet, or the counter of keys that it inserted.
    fn prologue(&self, _: Geometry, code: &mut Code) {
        match (self.plan.slots(), self.plan.marker) {
            (Some(_), _) => code.lines("u32 inserted = 0;"),
            (None, Some(_)) => {}
            (None, None) => code.lines("BitRun present(reinterpret_cast<u32*>(args.groups));"),
        }
    }

    fn row(&self, code: &mut Code) {
        let number = &self.number;
        match self.plan.slots() {
            None => line!(code, "const u32 slot = u32({number});"),
            Some(_) => line!(code, "const u32 slot = {};", insert(number)),
        }
        let mut stores = Code::default();
        for (k, (column, value)) in self.plan.columns.iter().zip(&self.values).enumerate() {
            store(k, column, value, "slot", &mut stores);
        }
        match self.plan.slots() {
            Some(_) if !self.plan.columns.is_empty() => {
                code.lines("if (slot != NO_SLOT) {");
                code.nest(1, &stores);
                code.lines("}");
            }
            _ => code.nest(0, &stores),
        }
        if self.plan.slots().is_none() && self.plan.marker.is_none() {
            code.lines("present.set(slot);");
        }
    }

    fn epilogue(&self, _: Geometry, code: &mut Code) {
        match (self.plan.slots(), self.plan.marker) {
            (Some(_), _) => {
                code.lines("if (inserted != 0) atomicAdd(args.counters, (unsigned long long)inserted);");
            }
            (None, Some(_)) => {}
            (None, None) => code.lines("present.flush();"),
        }
    }
}

/// C++ expression of the slot of a key in the table of keys, which is inserted if absent. A full table raises
/// [`Signal::KeysFull`].
pub(super) fn insert(number: &str) -> String {
    let full = Signal::KeysFull.number();
    format!("key_table_insert(args.groups, args.capacity - 1, {number}, inserted, args.error, {full}u)")
}

/// Stores a value of the row and its NULL flag in column `k` at position `at`.
pub(super) fn store(k: usize, column: &BuiltColumn, value: &Value, at: &str, code: &mut Code) {
    let c_type = column.c_type;
    line!(
        code,
        "reinterpret_cast<{c_type}*>(args.outputs[{k}])[{at}] = {c_type}({});",
        value.code
    );
    if let Some(null) = &value.null {
        let nulls = MAX_OUTPUTS / 2 + k;
        line!(
            code,
            "if ({null}) atomicOr(reinterpret_cast<u32*>(args.outputs[{nulls}]) + ({at} >> 5), 1u << ({at} & 31u));"
        );
    }
}
