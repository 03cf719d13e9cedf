//! Nodes of physical plans that run on the device, or feed those that do.
//!
//! ```text
//! gpu_exec   a placed subtree: runs its graph of pipelines, or the plan that it replaces on the CPU
//! work_rows  the rows of a recursive query's last step
//! ```

mod gpu_exec;
mod work_rows;

pub(crate) use gpu_exec::{DescribedPipeline, note_readers};
pub use gpu_exec::{GpuExec, PlaceAgain};
pub(crate) use work_rows::WorkRowsExec;
