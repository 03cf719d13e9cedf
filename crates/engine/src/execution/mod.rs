//! Execution: a pipeline plan, data and a device make record batches.
//!
//! ```text
//! GpuExec ── source: load encoded columns (store) ── zone maps drop chunks
//!    └─ run ── bind ── generate ── compile (cached) ── columns resident in device memory? one launch over all chunks
//!                                                      otherwise: chunks stream through double buffers, a launch each
//!              ── results: words of groups, or rows ── Arrow arrays
//! ```
//!
//! A pipeline that cannot run after all (a range too wide for 128 bits, a full device) runs on DataFusion's CPU
//! operators, with the reason in the query report, unless `galatea.fallback = 'error'`. No rows have been returned
//! by then, so nothing is lost or repeated.

mod chunks;
mod dimensions;
mod gpu_exec;
mod group_table;
pub(crate) mod prepared;
pub(crate) mod residency;
mod results;
pub(crate) mod row_heap;
mod run;
mod sinks;
mod source;

pub use gpu_exec::GpuExec;
pub use run::{RunError, RunReport};
