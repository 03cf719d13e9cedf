//! TABLESAMPLE: a random sample of a table's rows.
//!
//! [`SampleExec`] draws them on the CPU; placement treats it as a filter by the number of a row (`draw.rs`
//! computes the words that are compared), so a pipeline on the device draws the same rows.

mod draw;
mod exec;

pub use draw::{Draw, Lots, Sample};
pub use exec::SampleExec;
