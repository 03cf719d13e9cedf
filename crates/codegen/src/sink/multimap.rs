//! The build side of a multimap join: rows are stored by position and counted by key. The host computes the
//! list starts from the counts (`joins/pairs.rs`).
//!
//! ```text
//! args.groups              the table of keys, if keys are sparse
//! args.outputs[k]          column k by position
//! args.outputs[N/2 + k]    a bit by position: whether column k is NULL there
//! args.outputs[SLOTS]      by position the index of the key; NO_SLOT if it is NULL
//! args.outputs[RANKS]      by position the rank of the row among those of its key
//! args.outputs[COUNTS]     by index the number of rows of the key
//! ```

use super::build::{insert, store};
use super::statements::RESERVE;
use super::{Geometry, Sink};
use crate::build_plan::MultimapPlan;
use galatea_expression::Value;
use galatea_expression::code::{Code, line};
use galatea_kernels::MAX_OUTPUTS;

/// Maximum number of columns of a join side.
pub const MAX_COLUMNS: usize = MAX_OUTPUTS / 2 - 3;

/// Index of the output with the index of each row's key.
pub const SLOTS: usize = MAX_COLUMNS;

/// Index of the output with the rank of each row among those of its key.
pub const RANKS: usize = MAX_COLUMNS + 1;

/// Index of the output with the number of rows of each key.
pub const COUNTS: usize = MAX_COLUMNS + 2;

/// Stores rows by position, with lists by key.
#[derive(Debug)]
pub(crate) struct MultimapSink {
    pub(crate) plan: MultimapPlan,
    /// C++ expression of the number of the row's key.
    pub(crate) number: String,
    /// C++ condition that the key is NULL, if it can be.
    pub(crate) null: Option<String>,
    /// The values of the plan's columns for the row.
    pub(crate) values: Vec<Value>,
}

impl Sink for MultimapSink {
    fn headers(&self) -> &'static [&'static str] {
        &["key_table"]
    }

    fn prologue(&self, _: Geometry, code: &mut Code) {
        if self.plan.keys.slots.is_some() {
            code.lines("u32 inserted = 0;");
        }
    }

    fn before_rows(&self, code: &mut Code) {
        code.lines(RESERVE);
    }

    fn row(&self, code: &mut Code) {
        let number = &self.number;
        let slot = match self.plan.keys.slots {
            None => format!("u32({number})"),
            Some(_) => insert(number),
        };
        match &self.null {
            Some(null) => line!(code, "const u32 slot = {null} ? NO_SLOT : {slot};"),
            None => line!(code, "const u32 slot = {slot};"),
        }
        line!(code, "reinterpret_cast<u32*>(args.outputs[{SLOTS}])[at] = slot;");
        line!(
            code,
            "reinterpret_cast<u32*>(args.outputs[{RANKS}])[at] = slot == NO_SLOT ? 0u : atomicAdd(reinterpret_cast<u32*>(args.outputs[{COUNTS}]) + slot, 1u);"
        );
        for (k, (column, value)) in self.plan.columns.iter().zip(&self.values).enumerate() {
            store(k, column, value, "at", code);
        }
        code.lines("++at;");
    }
}
