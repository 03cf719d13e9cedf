//! Measurements of streams and of their baselines (XeFlow, section 6).
//!
//! [`run`] runs one of [`EXPERIMENTS`]; each reproduces a figure of the paper, or measures a bound for it.
//! [`findings`] compares the rows of figures 9, 11, 13 and 14 with the paper's results. [`workload`] contains
//! the operators. [`soak`] runs random streams, and injects failures into some.
//!
//! Inputs are random. Outputs are compared with the CPU's: one frame in 256 completely, every frame by its
//! number.
//!
//! ```sh
//! galatea bench flow --experiment frame-sizes,set-query --out FOLDER       # FOLDER/frame-sizes.csv, ...
//! cargo build --release -p galatea-experiments --example measure          # the same, without DataFusion
//! target/release/examples/measure --runs 3 --gigabytes 2 frame-sizes
//! target/release/examples/measure soak --seconds 600
//! ```

mod batches;
mod bulk;
mod copied;
mod cpu;
mod experiments;
mod findings;
mod formula;
mod kernels;
mod link;
mod load;
mod managed;
mod pairs;
mod random;
mod soak;
mod stream;
mod tasks;
pub mod workload;

use crate::runs;

pub use experiments::{EXPERIMENTS, Scale, run};
pub use findings::findings;
pub use load::Load;
pub use soak::{Soak, Soaked, soak};

/// The result of a measurement: values of several runs.
#[derive(Debug, Clone)]
pub struct Row {
    /// The experiment: one of [`EXPERIMENTS`].
    pub experiment: &'static str,
    /// The measured system: a stream, or a baseline.
    pub method: String,
    /// The operator.
    pub operator: String,
    /// Bytes of a frame or batch.
    pub frame_bytes: usize,
    /// The quantity, and its unit.
    pub metric: &'static str,
    /// One value per run.
    pub values: Vec<f64>,
}

impl Row {
    /// The median.
    #[must_use]
    pub fn median(&self) -> f64 {
        runs::median(&self.values)
    }

    /// The minimum and the maximum.
    #[must_use]
    pub fn range(&self) -> (f64, f64) {
        runs::range(&self.values)
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
