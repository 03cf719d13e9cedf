//! The engine: places DataFusion plans on the GPU, generates pipelines and runs them.
//!
//! ```text
//! join_order  the order of inner joins
//! placement   which subtrees run on the device, and why not the others      (optimizer rules, EXPLAIN)
//! code        C++ text under construction
//! expression  DataFusion's expressions as typed IR, and as C++ for one row
//! pipeline    source → filters → sink as one generated kernel
//! execution   columns, chunks, launches, results
//! explain     plans as text
//! calibration what the cost model knows of a device: measured once, or scaled from another's
//! metrics     what it counts, for a recorder of the program's
//! history     what earlier runs have shown: refusals and times
//! policy      tuning constants; policies lists all
//! corrections rules for queries that DataFusion answers wrongly
//! plans       finished plans, kept for queries that come again
//! scan_progress how far the scans of a plan are
//! stream      rows without an end, by persistent operators of the device
//! spilling_join hash joins on the CPU that exceed the memory pool
//! checks      overflow is an error; operands raise errors for the rows that need them alone
//! window_filters FILTER of window functions, as their arguments
//! runtime     what a session's queries share: store, device, resident columns
//! ```
#![forbid(unsafe_code)]

pub mod background;
pub mod checks;
pub mod code;
pub mod config;
pub mod corrections;
pub mod device;
pub mod execution;
pub mod explain;
pub mod expression;
pub mod graph;
pub mod history;
pub mod join_order;
pub mod metrics;
pub mod pipeline;
pub mod placement;
pub mod plans;
pub mod policies;
pub mod policy;
pub mod reason;
pub mod report;
pub mod runtime;
pub mod sample;
pub mod scan_progress;
mod spill;
pub mod spilling_join;
mod stack;
pub mod stream;
pub mod window_filters;
