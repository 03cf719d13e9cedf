//! Rows of measurements.

use super::rig::{Bytes, Limits};
use crate::runs::{median, range};

/// A measured row.
#[derive(Debug, Clone)]
pub struct Row {
    /// What was measured: a join, its first pass or its second half, or a partitioning.
    pub experiment: &'static str,
    /// The figure.
    pub figure: &'static str,
    /// The algorithm.
    pub algorithm: String,
    /// Millions of tuples of the build side and of the probe side.
    pub workload: (usize, usize),
    /// The parameter that the figure varies.
    pub parameter: &'static str,
    /// Its value.
    pub value: f64,
    /// Tuples that were processed.
    pub tuples: u64,
    /// Seconds of each run.
    pub seconds: Vec<f64>,
    /// Bytes that the algorithm moves at least.
    pub bytes: Bytes,
    /// Fraction of the state in host memory.
    pub spilled: f64,
    /// Bits of both passes.
    pub bits: (u32, u32),
    /// Rates of the machine.
    pub limits: Limits,
    /// For a phase, its share of the time of a run without overlap.
    pub of_run: Option<f64>,
}

impl Row {
    /// Names of the fields of [`Row::csv`].
    pub const HEADER: &'static str = "experiment,figure,algorithm,workload,parameter,value,tuples,seconds,gtuples_s,share_of_bound,spread,link_share,memory_share,to_device_gb,to_host_gb,memory_gb,spilled,bits,to_device_share,to_host_share,share_of_run";

    /// The median of the seconds.
    #[must_use]
    pub fn median(&self) -> f64 {
        median(&self.seconds)
    }

    /// Billions of tuples per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.tuples as f64 / self.median() / 1e9
    }

    /// Bytes of tuples per second that were read, in GB/s.
    #[must_use]
    pub fn gigabytes(&self) -> f64 {
        16.0 * self.rate()
    }

    /// Seconds that link and memory need at least, divided by those of the median.
    #[must_use]
    pub fn shares(&self) -> (f64, f64) {
        let median = self.median();
        (
            self.bytes.link_seconds(&self.limits) / median,
            self.bytes.memory_seconds(&self.limits) / median,
        )
    }

    /// The rates over the link to the device and to the host, divided by those of copies in one direction.
    #[must_use]
    pub fn utilisation(&self) -> (f64, f64) {
        let median = self.median();
        (
            self.bytes.to_device as f64 / median / self.limits.to_device,
            self.bytes.to_host as f64 / median / self.limits.to_host,
        )
    }

    /// The row as comma-separated values.
    #[must_use]
    pub fn csv(&self) -> String {
        let (least, greatest) = range(&self.seconds);
        let (link, memory) = self.shares();
        let (to_device, to_host) = self.utilisation();
        let of_run = self
            .of_run
            .map_or_else(String::new, |share| format!("{share:.4}"));
        let seconds: Vec<String> = self.seconds.iter().map(|run| format!("{run:.5}")).collect();
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        format!(
            "{},{},{},{}:{},{},{},{},{},{:.4},{:.3},{:.3},{link:.3},{memory:.3},{:.2},{:.2},{:.2},{:.3},{}+{},{:.3},{:.3},{}",
            self.experiment,
            self.figure,
            self.algorithm,
            self.workload.0,
            self.workload.1,
            self.parameter,
            self.value,
            self.tuples,
            seconds.join(";"),
            self.rate(),
            link.max(memory),
            (greatest - least) / self.median(),
            gigabytes(self.bytes.to_device),
            gigabytes(self.bytes.to_host),
            gigabytes(self.bytes.memory),
            self.spilled,
            self.bits.0,
            self.bits.1,
            to_device,
            to_host,
            of_run,
        )
    }
}
