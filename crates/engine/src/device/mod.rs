//! One opened device, and the state that all queries on it share.
//!
//! ```text
//! device_runtime  the device with its memory manager, streams and staging memory
//! calibration     its rates for the cost model: measured once, or scaled from another's
//! columns         columns of the store as regions of its memory
//! prepared        pipelines that were bound and compiled before
//! chunk_table     inputs of a launch beside columns: chunks, lookup tables
//! launches        the inputs of earlier launches over the same pages
//! demand          the memory that a pipeline is going to use, predicted, then measured
//! persistent      the number of stream kernels that run
//! error           the reasons for which a run gives no result
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
pub(crate) use error::check;

/// Its tuning policies.
pub(crate) fn policies() -> Vec<galatea_base::policy::Policy> {
    vec![demand::DemandPolicy::listed()]
}
