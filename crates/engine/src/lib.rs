//! The engine: places DataFusion plans on the GPU and runs them.
//!
//! ```text
//! metrics        counters of the engine, for the program's recorder
//! sample         the rows that TABLESAMPLE draws
//! window_filters rewrites FILTER of window functions to arguments
//! spilling_join  hash joins on the CPU that exceed the memory pool
//! repartition_memory  a memory pool that lets repartitions grow
//! late_columns   scans that decode the columns of their filter first
//! checks         overflow is an error; operands raise errors only for the rows that need them
//! hive_table     tables of files in folders `key=value`
//! corrections    rules for queries that DataFusion answers wrongly
//! graph          the pipelines of a subtree, and the plans that feed them
//! device         the state that queries share on one device: memory, kernels, launches, calibration
//! history        outcomes of earlier runs: refusals and times
//! background     background work for later queries
//! join_order     the order of inner joins
//! syntax         visits of SQL syntax trees
//! shared_results  results of equal queries that run at the same time
//! facts          named facts of GPU subtrees, for EXPLAIN
//! engine         the state of a process: devices, store, history, background, and their settings
//! session        the state of a context: its engine, reports, object stores
//! execution      columns, chunks, launches, results
//! nodes          nodes of plans that run on the device
//! stream         unbounded input, run by persistent operators of the device
//! placement      which subtrees run on the device, and why others do not    (optimizer rules, EXPLAIN)
//! scan_progress  progress of the scans of a plan
//! plans          cached plans for repeated queries
//! explain        plans as text
//! ```
//!
//! Bottom up: a module imports only modules listed before it. Modules that all others use are not listed
//! (`config`, `report`, ...).
#![forbid(unsafe_code)]

mod aggregate;
pub mod background;
pub mod checks;
pub mod config;
pub mod corrections;
pub mod device;
pub mod engine;
pub mod execution;
pub mod explain;
mod facts;
pub mod graph;
pub mod history;
pub mod hive_table;
pub mod join_order;
pub mod joins;
pub mod late_columns;
pub mod metrics;
pub mod nodes;
pub mod placement;
pub mod plans;
pub mod policies;
pub mod repartition_memory;
pub mod report;
mod results;
mod rows;
pub mod sample;
pub mod scan_progress;
pub mod session;
mod shared_results;
mod sort;
mod spill;
pub mod spilling_join;
pub mod stream;
mod string;
pub mod syntax;
mod transfer;
mod window;
pub mod window_filters;
