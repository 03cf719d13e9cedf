//! The rows that TABLESAMPLE draws of a table.
//!
//! [`SampleExec`] draws them on the CPU; placement takes it for a filter by the number of a row (`draw.rs`
//! has the words that are compared), so a pipeline on the device draws the same rows.

mod draw;
mod exec;

pub use draw::{Draw, Lots, Sample};
pub use exec::SampleExec;
