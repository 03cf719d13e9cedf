//! One opened device, and the state that all queries on it share.
//!
//! ```text
//! device_runtime  the device with its memory manager, streams and staging memory
//! calibration     its rates for the cost model: measured once, or scaled from another's
//! columns         columns of the store as regions of its memory
//! prepared        the cache of bound and compiled pipelines
//! kernel_times    times of compiling or loading kernels, for the cost model
//! chunk_table     inputs of a launch besides columns: chunks, lookup tables
//! launches        the inputs of earlier launches over the same pages
//! shared_scan     scans of one run that other runs follow
//! demand          the memory demand of a pipeline, predicted, then measured
//! persistent      the number of running stream kernels
//! error           the reasons why a run has no result
//! activity        memory, pipelines and transfers at one moment
//! ```

mod activity;
pub mod calibration;
pub(crate) mod chunk_table;
pub(crate) mod columns;
pub(crate) mod demand;
mod device_runtime;
mod error;
mod kernel_times;
pub(crate) mod launches;
pub(crate) mod persistent;
pub(crate) mod prepared;
pub(crate) mod shared_scan;

pub use activity::{DeviceActivity, DeviceCeilings, RegionContent};
pub use device_runtime::{DeviceRuntime, QueryStreams, Staging};
pub use error::RunError;
pub(crate) use error::check;

/// The tuning policies of this module.
pub(crate) fn policies() -> Vec<galatea_base::policy::Policy> {
    vec![demand::DemandPolicy::listed()]
}
