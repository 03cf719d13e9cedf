//! The figures and tables of five papers: the experiment of each, its committed result, and the page
//! `bench/results/papers.md`.
//!
//! ```text
//! entry      a figure, its experiment, the paper's result, and the sources that the experiment measures
//! registry/  the figures of each paper
//! results    committed results: `findings.txt` files below `bench/results`
//! page       papers.md, from the registry and the results
//! ```
//!
//! `galatea bench papers` runs the experiments. [`ENTRIES`] is the only list of them.

mod entry;
mod page;
mod registry;
mod results;

pub use entry::{Bench, Entry, Paper, Run};
pub use page::{commits_since, page};
pub use registry::{ENTRIES, chosen, entries};
pub use results::{Finding, Measured, Results, Verdict};

#[cfg(test)]
mod tests;
