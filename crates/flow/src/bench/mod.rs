//! Measurements of streams and of their baselines (XeFlow, section 6).
//!
//! `galatea bench flow` runs them, and so does the example `measure`, which needs nothing but this crate.
//! Inputs are random, outputs are compared with the CPU's: one frame in 256 whole, each by its number.

mod batches;
mod bulk;
mod copied;
mod cpu;
mod experiments;
mod findings;
mod link;
mod load;
mod managed;
mod pairs;
mod soak;
mod stream;
mod tasks;

pub use batches::{Batches, Run, over_mapped_memory};
pub use copied::copy_kernel_copy;
pub use experiments::{EXPERIMENTS, Scale, run, subject};
pub use findings::findings;
pub use link::{Ceilings, ceilings};
pub use load::{Load, Touch};
pub use managed::kernel_over_managed;
pub use soak::{Soak, Soaked, soak};
pub use stream::{Shape, round_trip, throughput};
pub use tasks::copy_task_copy;

/// The result of a measurement: values of several runs.
#[derive(Debug, Clone)]
pub struct Row {
    /// The experiment: one of [`EXPERIMENTS`].
    pub experiment: &'static str,
    /// The measured system: a stream, or a baseline.
    pub method: String,
    /// Its operator.
    pub operator: String,
    /// Bytes of a frame or batch.
    pub frame_bytes: usize,
    /// The quantity, and its unit.
    pub metric: &'static str,
    /// One value a run.
    pub values: Vec<f64>,
}

impl Row {
    /// The middle value.
    #[must_use]
    pub fn median(&self) -> f64 {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// The least and the greatest value.
    #[must_use]
    pub fn range(&self) -> (f64, f64) {
        let least = self.values.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (least, greatest)
    }

    /// Names of the fields of [`Row::csv`].
    pub const HEADER: &'static str =
        "experiment,method,operator,frame_bytes,metric,median,least,greatest,runs";

    /// The row as comma-separated values.
    #[must_use]
    pub fn csv(&self) -> String {
        let (least, greatest) = self.range();
        format!(
            "{},{},{},{},{},{:.4},{:.4},{:.4},{}",
            self.experiment,
            self.method,
            self.operator,
            self.frame_bytes,
            self.metric,
            self.median(),
            least,
            greatest,
            self.values.len()
        )
    }
}
