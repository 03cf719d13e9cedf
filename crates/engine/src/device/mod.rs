//! One opened device, and what all that runs on it shares.
//!
//! ```text
//! device_runtime  the device with its memory manager, streams and staging memory
//! calibration     what the cost model knows of it: measured once, or scaled from another's
//! columns         columns of the store as regions of its memory
//! prepared        pipelines that were bound and compiled before
//! chunk_table     what a launch reads beside columns
//! launches        launches whose chunk tables are kept
//! demand          the memory that a pipeline is going to use, from what earlier runs have shown
//! persistent      how many kernels of streams run
//! error           why a run gave no result
//! ```

pub mod calibration;
pub(crate) mod chunk_table;
pub(crate) mod columns;
pub(crate) mod demand;
mod device_runtime;
mod error;
pub(crate) mod launches;
pub(crate) mod persistent;
pub(crate) mod prepared;

pub use device_runtime::{DeviceRuntime, QueryStreams, Staging};
pub use error::RunError;

/// Its tuning policies.
pub(crate) fn policies() -> Vec<crate::policy::Policy> {
    vec![demand::DemandPolicy::listed()]
}
