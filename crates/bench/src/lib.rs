//! Workloads, measurements and their results.
//!
//! ```text
//! workload/   generators of data, and the queries as published
//! papers/     the figures of papers, their experiments and committed results
//! measure     runs and times one query, on Galatea and on DataFusion's CPU operators
//! duckdb      the same queries on DuckDB, if its Python module is installed
//! allocator/  experiments on the device heap, which have no queries
//! conflicts/  experiments on bank and value conflicts in shared memory
//! residency/  queries with a part of their data in device memory
//! kmeans/     clustering: an iteration compared with one read of the points
//! joins/      joins in device memory, costs by rows, groups and build sides
//! random/     random queries, compared with DataFusion's CPU operators
//! sort/       keys with row numbers compared with one read of the keys, ORDER BY compared with the CPU
//! streams     continuous queries: latencies of a stream of events
//! concurrency/ many clients on one device
//! first_runs  first and later runs of a workload in a fresh session
//! compare     whether two results are equal
//! markdown    tables of summaries
//! result      rows: one per run, written as CSV and JSON lines with their command
//! ```
//!
//! Experiments on streams, the link and the heap that need no query are in `galatea_experiments`.
#![forbid(unsafe_code)]

pub mod allocator;
pub mod compare;
pub mod concurrency;
pub mod conflicts;
pub mod duckdb;
mod error;
pub mod first_runs;
mod harness;
pub mod joins;
pub mod kmeans;
pub mod machine;
pub mod markdown;
pub mod measure;
pub mod papers;
pub mod random;
pub mod residency;
pub mod result;
pub mod sort;
pub mod streams;
pub mod workload;

pub use error::BenchError;
pub use harness::plot::Figure;
pub use harness::{Cells, Finding, Report};

/// The result of this crate's functions.
pub type Result<T, E = BenchError> = std::result::Result<T, E>;
