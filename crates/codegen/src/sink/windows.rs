//! Rows that are sorted into the order of a window: they are stored by position, with the words of the sort
//! key. The host sorts them by these words (`window/mod.rs`).
//!
//! ```text
//! args.outputs[k]           column k by position, then the words
//! args.outputs[N/2 + k]     a bit by position: whether column k is NULL there
//! ```

use super::Sink;
use super::build::store;
use super::statements::RESERVE;
use crate::build_plan::WindowsPlan;
use galatea_expression::Value;
use galatea_expression::code::{Code, line};

/// Stores rows by position, with the words of their sort key.
#[derive(Debug)]
pub(crate) struct WindowsSink {
    pub(crate) plan: WindowsPlan,
    /// The values of the plan's columns for the row.
    pub(crate) values: Vec<Value>,
    /// The words of the sort key for the row.
    pub(crate) words: Vec<Value>,
}

impl Sink for WindowsSink {
    fn before_rows(&self, code: &mut Code) {
        code.lines(RESERVE);
    }

    fn row(&self, code: &mut Code) {
        for (k, (column, value)) in self.plan.columns.iter().zip(&self.values).enumerate() {
            store(k, column, value, "at", code);
        }
        for (k, word) in self.words.iter().enumerate() {
            let (output, c_type) = (self.values.len() + k, word.kind.c_type());
            line!(
                code,
                "reinterpret_cast<{c_type}*>(args.outputs[{output}])[at] = {};",
                word.code
            );
        }
        code.lines("++at;");
    }
}
