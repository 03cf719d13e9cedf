//! The rows of a report.

use galatea_layout::model;
use serde::{Deserialize, Serialize};

use super::Experiment;
use super::bed::Launched;
use super::way::Way;
use crate::BenchError;
use crate::harness::{Cells, Finding};
use crate::machine::Machine;
use crate::result::real;

/// One configuration of one experiment. Columns that do not apply are `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The experiment's name.
    pub experiment: String,
    /// `Q1`, `Q2` (counts), `Q2 sum`; empty without a query.
    pub query: String,
    /// Original column, laid-out column, or method of summing; for the machine, the constant.
    pub layout: String,
    /// Rows of the table.
    pub rows: u64,
    /// Number of distinct values of the column, or of groups.
    pub values: u64,
    /// Skew of Zipf's law.
    pub theta: f64,
    /// Number of rounds that the accesses are constructed to take; for the machine, of conflicting lanes.
    pub degree: Option<u64>,
    /// Window of the layout.
    pub window: Option<u64>,
    /// The budget of the layout, as mean copies.
    pub budget: Option<f64>,
    /// Number of threads that computed the layout.
    pub cpu_threads: Option<u64>,
    /// Seconds of laying out, including writing the column.
    pub layout_s: Option<f64>,
    /// Mean copies of a value.
    pub copies: Option<f64>,
    /// The same, with holes counted as copies.
    pub copies_and_holes: Option<f64>,
    /// Copies of the value with the most copies.
    pub most_copies: Option<u64>,
    /// Number of values with more than one copy.
    pub replicated: Option<u64>,
    /// Number of slots of the table, including holes.
    pub slots: Option<u64>,
    /// Mean distinct banks of an access.
    pub banks: Option<f64>,
    /// Mean serialisation rounds of a read.
    pub read_rounds: Option<f64>,
    /// Mean serialisation rounds of a write.
    pub write_rounds: Option<f64>,
    /// Threads of a block.
    pub block_threads: Option<u64>,
    /// Shared memory of a block.
    pub shared_bytes: Option<u64>,
    /// Number of concurrent threads of a multiprocessor.
    pub resident_threads: Option<u64>,
    /// Number of measured runs.
    pub runs: u64,
    /// Their median, in milliseconds of device time.
    pub ms: Option<f64>,
    /// The fastest.
    pub min_ms: Option<f64>,
    /// The slowest.
    pub max_ms: Option<f64>,
    /// Rows divided by the median.
    pub rows_per_second: Option<f64>,
    /// Speed-up relative to the original column.
    pub speed_up: Option<f64>,
    /// Prediction of the cost model, in milliseconds.
    pub predicted_ms: Option<f64>,
    /// For the machine: the measured constant.
    pub constant: Option<f64>,
    /// Seed of the random data.
    pub seed: u64,
    /// The machine of the measurement.
    #[serde(flatten)]
    pub machine: Machine,
    /// The method of summing, for the model.
    #[serde(skip)]
    pub(super) way: Option<Way>,
}

impl Row {
    pub(super) fn new(layout: &str) -> Self {
        Self {
            layout: layout.to_string(),
            ..Self::default()
        }
    }

    pub(super) fn set_data(&mut self, rows: usize, values: usize, theta: f64) {
        (self.rows, self.values, self.theta) = (rows as u64, values as u64, theta);
    }

    pub(super) fn set_launch(&mut self, launched: Launched) {
        self.block_threads = Some(launched.block_threads);
        self.shared_bytes = Some(launched.shared_bytes);
        self.resident_threads = Some(launched.resident_threads);
        if let Some(summary) = launched.summary {
            self.runs = summary.runs as u64;
            self.ms = Some(summary.median * 1e3);
            self.min_ms = Some(summary.min * 1e3);
            self.max_ms = Some(summary.max * 1e3);
            self.rows_per_second = Some(self.rows as f64 / summary.median).filter(|rate| rate.is_finite());
        }
    }

    pub(super) fn cells(&self) -> Cells {
        let whole = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        vec![
            ("experiment", self.experiment.clone()),
            ("query", self.query.clone()),
            ("layout", self.layout.clone()),
            ("rows", self.rows.to_string()),
            ("values", self.values.to_string()),
            ("theta", self.theta.to_string()),
            ("degree", whole(self.degree)),
            ("window", whole(self.window)),
            (
                "budget",
                self.budget.map_or_else(String::new, |budget| budget.to_string()),
            ),
            ("cpu_threads", whole(self.cpu_threads)),
            ("layout_s", real(self.layout_s)),
            ("copies", real(self.copies)),
            ("copies_and_holes", real(self.copies_and_holes)),
            ("most_copies", whole(self.most_copies)),
            ("replicated", whole(self.replicated)),
            ("slots", whole(self.slots)),
            ("banks", real(self.banks)),
            ("read_rounds", real(self.read_rounds)),
            ("write_rounds", real(self.write_rounds)),
            ("block_threads", whole(self.block_threads)),
            ("shared_bytes", whole(self.shared_bytes)),
            ("resident_threads", whole(self.resident_threads)),
            ("runs", self.runs.to_string()),
            ("ms", real(self.ms)),
            ("min_ms", real(self.min_ms)),
            ("max_ms", real(self.max_ms)),
            (
                "rows_per_second",
                self.rows_per_second
                    .map_or_else(String::new, |rate| format!("{rate:.0}")),
            ),
            ("speed_up", real(self.speed_up)),
            ("predicted_ms", real(self.predicted_ms)),
            (
                "constant",
                self.constant
                    .map_or_else(String::new, |constant| format!("{constant:.6e}")),
            ),
            ("seed", self.seed.to_string()),
        ]
    }
}

/// All measurements.
#[derive(Debug)]
pub struct ConflictsReport {
    /// The rows.
    pub rows: Vec<Row>,
    /// Experiments that ended early, with their errors.
    pub failures: Vec<(Experiment, BenchError)>,
    /// One finding per experiment.
    pub findings: Vec<Finding>,
    /// Findings with verdicts.
    pub(super) verdicts: Vec<Finding>,
    /// The model's constants of this device, if they were measured.
    pub model: Option<model::Machine>,
    pub(super) machine: Machine,
    seed: u64,
}

impl ConflictsReport {
    pub(super) fn new(machine: Machine, seed: u64) -> Self {
        Self {
            rows: Vec::new(),
            failures: Vec::new(),
            findings: Vec::new(),
            verdicts: Vec::new(),
            model: None,
            machine,
            seed,
        }
    }

    pub(super) fn push(&mut self, experiment: Experiment, row: Row) {
        self.rows.push(Row {
            experiment: experiment.name().to_string(),
            seed: self.seed,
            machine: self.machine.clone(),
            ..row
        });
    }

    /// Rows of an experiment.
    pub fn of(&self, experiment: Experiment) -> impl Iterator<Item = &Row> {
        self.rows
            .iter()
            .filter(move |row| row.experiment == experiment.name())
    }
}
