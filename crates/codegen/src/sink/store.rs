//! Rows by position that are one part of another pipeline's input (`rows/stored.rs`).
//!
//! ```text
//! args.outputs[k]           column k by position
//! args.outputs[N/2 + k]     a bit by position: whether column k is NULL there
//! ```

use super::Sink;
use super::build::store;
use super::statements::RESERVE;
use crate::build_plan::StorePlan;
use galatea_expression::Value;
use galatea_expression::code::Code;

/// Stores rows by position.
#[derive(Debug)]
pub(crate) struct StoreSink {
    pub(crate) plan: StorePlan,
    /// The values of the plan's columns for the row.
    pub(crate) values: Vec<Value>,
}

impl Sink for StoreSink {
    fn before_rows(&self, code: &mut Code) {
        code.lines(RESERVE);
    }

    fn row(&self, code: &mut Code) {
        for (k, (column, value)) in self.plan.columns.iter().zip(&self.values).enumerate() {
            store(k, column, value, "at", code);
        }
        code.lines("++at;");
    }
}
