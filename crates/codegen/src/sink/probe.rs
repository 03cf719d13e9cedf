//! The probe side of a join whose keys repeat: rows are stored by position, each with the list of its
//! partners. The host adds up the lengths of the lists (`joins/pairs.rs`).
//!
//! ```text
//! args.outputs[k]           column k by position
//! args.outputs[N/2 + k]     a bit by position: whether column k is NULL there
//! args.outputs[FIRSTS]      by position where the list starts; NO_ROW: there is none
//! args.outputs[PARTNERS]    by position the pairs of the row: the length of the list, or 1 of an outer join
//! ```

use super::Sink;
use super::build::store;
use super::lists::MAX_COLUMNS;
use super::statements::RESERVE;
use crate::build_plan::ProbePlan;
use galatea_expression::Value;
use galatea_expression::code::{Code, line};

/// The output that has the start of each row's list.
pub const FIRSTS: usize = MAX_COLUMNS;

/// The output that has the number of each row's pairs.
pub const PARTNERS: usize = MAX_COLUMNS + 1;

/// Rows by position, with the lists of their partners.
#[derive(Debug)]
pub(crate) struct ProbeSink {
    pub(crate) plan: ProbePlan,
    /// C++ of where the row's list starts, and of its length.
    pub(crate) list: (String, String),
    /// The row's values of the plan's columns.
    pub(crate) values: Vec<Value>,
}

impl Sink for ProbeSink {
    fn headers(&self) -> &'static [&'static str] {
        &["pairs"]
    }

    fn before_rows(&self, code: &mut Code) {
        code.lines(RESERVE);
    }

    fn row(&self, code: &mut Code) {
        let (first, count) = &self.list;
        let pairs = match self.plan.keeps_all {
            true => format!("{count} == 0 ? 1u : {count}"),
            false => count.clone(),
        };
        line!(
            code,
            "reinterpret_cast<u32*>(args.outputs[{FIRSTS}])[at] = {count} == 0 ? NO_ROW : {first};"
        );
        line!(
            code,
            "reinterpret_cast<u32*>(args.outputs[{PARTNERS}])[at] = {pairs};"
        );
        for (k, (column, value)) in self.plan.columns.iter().zip(&self.values).enumerate() {
            store(k, column, value, "at", code);
        }
        code.lines("++at;");
    }
}
