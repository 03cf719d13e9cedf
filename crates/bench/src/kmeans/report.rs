//! The rows of a report.

use galatea_kmeans::PassShape;
use serde::{Deserialize, Serialize};

use super::verify::Verified;
use crate::harness::Cells;
use crate::machine::Machine;
use crate::result::{Summary, real};

/// One shape of a pass over one set of points.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The experiment.
    pub experiment: String,
    /// single-pass, multi-pass or cross-processing.
    pub execution: String,
    /// resident, streamed, streamed with the CPU's help, or the CPU.
    pub place: String,
    /// The timed part of an iteration, if it was not all: a phase; for chunks, their bytes.
    pub part: String,
    /// The number of features, d.
    pub features: u32,
    /// The number of clusters, k.
    pub clusters: u32,
    /// The number of points, n.
    pub points: u64,
    /// Bytes of the points.
    pub bytes: u64,
    /// The method of finding the nearest centroids; empty if they are not searched.
    pub scores: String,
    /// The replication of sums.
    pub sums: String,
    /// Number of points per thread.
    pub points_per_thread: u32,
    /// Whether the next points are prefetched.
    pub ahead: bool,
    /// Number of threads of a block.
    pub threads: u32,
    /// Number of copies of the accumulators of a block.
    pub copies: u32,
    /// Number of concurrent blocks.
    pub blocks: u64,
    /// Shared memory of a block.
    pub shared_bytes: u64,
    /// The limit of shared memory; 0: all of it.
    pub shared_limit: u64,
    /// Number of registers of a thread.
    pub registers: u32,
    /// Bytes of spilled registers of a thread.
    pub spilled_bytes: u32,
    /// Number of measured runs.
    pub runs: u64,
    /// Median time of an iteration.
    pub ms_median: f64,
    /// Fastest iteration.
    pub ms_min: f64,
    /// Slowest iteration.
    pub ms_max: f64,
    /// Prediction of the model.
    pub predicted_ms: f64,
    /// Time of one read of the same number of bytes, or of their copy to the device if they are streamed.
    pub floor_ms: Option<f64>,
    /// Median over floor.
    pub ratio: Option<f64>,
    /// Bytes of points per second.
    pub gbytes_s: f64,
    /// Millions of points per second.
    pub mpoints_s: f64,
    /// Share of labels that differ from those computed in 64-bit floats.
    pub label_mismatch: f64,
    /// Largest difference of centroids, as a fraction of 100.
    pub centroid_error: f64,
    /// Whether differences are due to rounding.
    pub right: bool,
    /// The machine of the measurement.
    #[serde(flatten)]
    pub machine: Machine,
}

impl Row {
    /// A row of an experiment before its measurement.
    pub(super) fn new(experiment: &str, execution: &str, place: &str, machine: &Machine) -> Self {
        Self {
            experiment: experiment.to_string(),
            execution: execution.to_string(),
            place: place.to_string(),
            predicted_ms: f64::NAN,
            machine: machine.clone(),
            ..Self::default()
        }
    }

    /// Nanoseconds per point.
    pub(super) fn ns_of_a_point(&self) -> f64 {
        1e6 * self.ms_median / self.points as f64
    }

    pub(super) fn set_shape(&mut self, shape: PassShape) {
        self.features = shape.features;
        self.clusters = shape.clusters;
        self.scores = shape.scores.name().to_string();
        self.sums = shape.sums.name().to_string();
        self.points_per_thread = shape.points;
        self.ahead = shape.ahead;
        self.threads = shape.threads;
        self.copies = shape.copies;
        self.shared_bytes = shape.shared_bytes();
    }

    /// Sets the time of an iteration over `points` points with `bytes` bytes in total. The floor is in
    /// milliseconds.
    pub(super) fn set_time(&mut self, points: u64, bytes: u64, time: Option<Summary>, floor_ms: Option<f64>) {
        let ms = |value: fn(&Summary) -> f64| time.as_ref().map_or(f64::NAN, |time| 1e3 * value(time));
        let median = ms(|time| time.median);
        (self.points, self.bytes) = (points, bytes);
        self.runs = time.as_ref().map_or(0, |time| time.runs as u64);
        self.ms_median = median;
        self.ms_min = ms(|time| time.min);
        self.ms_max = ms(|time| time.max);
        self.floor_ms = floor_ms;
        self.ratio = floor_ms.map(|floor| median / floor);
        self.gbytes_s = bytes as f64 / median / 1e6;
        self.mpoints_s = points as f64 / median / 1e3;
    }

    /// Sets the errors relative to 64-bit floats.
    pub(super) fn set_verified(&mut self, verified: &Verified) {
        self.label_mismatch = verified.label_mismatch;
        self.centroid_error = verified.centroid_error;
        self.right = verified.is_right();
    }

    pub(super) fn cells(&self) -> Cells {
        vec![
            ("experiment", self.experiment.clone()),
            ("execution", self.execution.clone()),
            ("place", self.place.clone()),
            ("part", self.part.clone()),
            ("features", self.features.to_string()),
            ("clusters", self.clusters.to_string()),
            ("points", self.points.to_string()),
            ("bytes", self.bytes.to_string()),
            ("scores", self.scores.clone()),
            ("sums", self.sums.clone()),
            ("points_per_thread", self.points_per_thread.to_string()),
            ("ahead", self.ahead.to_string()),
            ("threads", self.threads.to_string()),
            ("copies", self.copies.to_string()),
            ("blocks", self.blocks.to_string()),
            ("shared_bytes", self.shared_bytes.to_string()),
            ("shared_limit", self.shared_limit.to_string()),
            ("registers", self.registers.to_string()),
            ("spilled_bytes", self.spilled_bytes.to_string()),
            ("runs", self.runs.to_string()),
            ("ms_median", format!("{:.6}", self.ms_median)),
            ("ms_min", format!("{:.6}", self.ms_min)),
            ("ms_max", format!("{:.6}", self.ms_max)),
            ("predicted_ms", format!("{:.6}", self.predicted_ms)),
            ("floor_ms", real(self.floor_ms)),
            ("ratio", real(self.ratio)),
            ("gbytes_s", format!("{:.3}", self.gbytes_s)),
            ("mpoints_s", format!("{:.3}", self.mpoints_s)),
            ("label_mismatch", format!("{:.3e}", self.label_mismatch)),
            ("centroid_error", format!("{:.3e}", self.centroid_error)),
            ("right", self.right.to_string()),
        ]
    }
}

/// All measurements.
#[derive(Debug, Clone)]
pub struct KmeansReport {
    /// One per shape.
    pub rows: Vec<Row>,
    pub(super) machine: Machine,
}

impl KmeansReport {
    pub(super) fn new(machine: Machine) -> Self {
        Self {
            rows: Vec::new(),
            machine,
        }
    }
}
