//! The probe side of a multimap join: rows are stored by position, each with its list of matches. The host
//! adds up the lengths of the lists (`joins/pairs.rs`).
//!
//! ```text
//! args.outputs[k]           column k by position
//! args.outputs[N/2 + k]     a bit by position: whether column k is NULL there
//! args.outputs[FIRSTS]      by position the start of the list; NO_ROW if the row has no match
//! args.outputs[PARTNERS]    by position the number of pairs: the length of the list, or 1 in an outer join
//! ```

use super::Sink;
use super::build::store;
use super::multimap::MAX_COLUMNS;
use super::statements::RESERVE;
use crate::build_plan::ProbePlan;
use galatea_expression::Value;
use galatea_expression::code::{Code, line};

/// Index of the output with the start of each row's list.
pub const FIRSTS: usize = MAX_COLUMNS;

/// Index of the output with the number of each row's pairs.
pub const PARTNERS: usize = MAX_COLUMNS + 1;

/// Stores rows by position, with the lists of their matches.
#[derive(Debug)]
pub(crate) struct ProbeSink {
    pub(crate) plan: ProbePlan,
    /// C++ expressions of the start and the length of the row's list.
    pub(crate) list: (String, String),
    /// The values of the plan's columns for the row.
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
