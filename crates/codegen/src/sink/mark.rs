//! Marks the pairs of a join that fulfil its condition, and the rows with such a pair.
//!
//! ```text
//! args.outputs[KEPT]      a bit for each pair; each of the three is null if it is not needed
//! args.outputs[PROBE]     a bit for each probe row
//! args.outputs[BUILD]     a bit for each build row
//! ```

use super::Sink;
use galatea_expression::code::{Code, line};

/// Index of the output with a bit for each pair.
pub const KEPT: usize = 0;

/// Index of the output with a bit for each probe row.
pub const PROBE: usize = 1;

/// Index of the output with a bit for each build row.
pub const BUILD: usize = 2;

/// Marks pairs and rows.
#[derive(Debug)]
pub(crate) struct MarkSink {
    /// C++ name of the row's pair.
    pub(crate) pair: String,
}

impl Sink for MarkSink {
    fn row(&self, code: &mut Code) {
        let pair = &self.pair;
        line!(code, "mark(args.outputs[{KEPT}], {pair}.number);");
        line!(code, "if ({pair}.probe != NO_ROW && {pair}.build != NO_ROW) {{");
        line!(code, "    mark(args.outputs[{PROBE}], {pair}.probe);");
        line!(code, "    mark(args.outputs[{BUILD}], {pair}.build);\n}}");
    }
}
