//! The rows of a report, and its table of medians.

use serde::{Deserialize, Serialize};

use super::Plan;
use crate::harness::{Cells, Report};
use crate::machine::Machine;
use crate::markdown::Table;
use crate::result::{Summary, optional, real};

/// One shape, sorted by one engine: median and spread over its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The width of keys, or a query.
    pub what: String,
    /// Number of sorted rows.
    pub rows: u64,
    /// `galatea` or `datafusion`.
    pub engine: String,
    /// The device of the sort.
    pub device: String,
    /// Number of runs.
    pub runs: u64,
    /// Median time.
    pub ms: f64,
    /// Fastest run.
    pub min_ms: f64,
    /// Slowest run.
    pub max_ms: f64,
    /// Number of passes over the keys; 0 for queries.
    pub passes: u32,
    /// Bytes of device memory that the sort reads and writes; for queries, bytes that pipelines' kernels
    /// read.
    pub bytes: u64,
    /// Measured rate of reading device memory, in bytes per second; `None` for queries.
    pub ceiling: Option<f64>,
    /// Bytes over time over the ceiling.
    pub fraction: Option<f64>,
    /// The reasons that parts ran on the CPU.
    pub reasons: String,
    /// The machine of the measurement.
    #[serde(flatten)]
    pub machine: Machine,
}

impl Row {
    pub(super) fn new(what: String, rows: u64, plan: &Plan) -> Self {
        Self {
            what,
            rows,
            engine: String::new(),
            device: String::new(),
            runs: 0,
            ms: f64::NAN,
            min_ms: f64::NAN,
            max_ms: f64::NAN,
            passes: 0,
            bytes: 0,
            ceiling: None,
            fraction: None,
            reasons: String::new(),
            machine: plan.machine.clone(),
        }
    }

    /// Sets times, and the fraction of a ceiling that the bytes reached.
    pub(super) fn set(&mut self, summary: Option<Summary>, ceiling: Option<f64>) {
        let Some(summary) = summary else { return };
        self.runs = summary.runs as u64;
        (self.ms, self.min_ms, self.max_ms) = (1e3 * summary.median, 1e3 * summary.min, 1e3 * summary.max);
        self.ceiling = ceiling;
        self.fraction = ceiling
            .filter(|_| summary.median > 0.0)
            .map(|ceiling| self.bytes as f64 / summary.median / ceiling);
    }

    /// Millions of rows a second.
    fn rate(&self) -> f64 {
        self.rows as f64 / self.ms / 1e3
    }
}

/// All measurements.
#[derive(Debug, Clone)]
pub struct SortReport {
    /// By number of rows: keys first, then queries.
    pub rows: Vec<Row>,
    machine: Machine,
}

impl SortReport {
    pub(super) fn new(machine: Machine) -> Self {
        Self {
            rows: Vec::new(),
            machine,
        }
    }
}

impl Report for SortReport {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn cells(row: &Row) -> Cells {
        vec![
            ("what", row.what.clone()),
            ("rows", row.rows.to_string()),
            ("engine", row.engine.clone()),
            ("device", row.device.clone()),
            ("runs", row.runs.to_string()),
            ("ms", real(row.ms)),
            ("min_ms", real(row.min_ms)),
            ("max_ms", real(row.max_ms)),
            ("passes", row.passes.to_string()),
            ("bytes", row.bytes.to_string()),
            ("ceiling", optional(row.ceiling)),
            ("fraction", optional(row.fraction)),
            ("reasons", row.reasons.clone()),
        ]
    }

    fn summary(&self) -> String {
        let table = Table::of(&self.rows)
            .words("what", |row| &row.what)
            .numbers("rows", |row| row.rows)
            .words("engine", |row| &row.engine)
            .words("ran on", |row| &row.device)
            .reals("median ms", 3, |row| row.ms)
            .reals("least", 3, |row| row.min_ms)
            .reals("most", 3, |row| row.max_ms)
            .reals("M rows/s", 1, |row| row.rate())
            .numbers("passes", |row| row.passes)
            .reals("GB moved", 3, |row| row.bytes as f64 / 1e9)
            .reals("of the read ceiling", 2, |row| row.fraction);
        table.to_string()
    }

    fn machine(&self) -> &Machine {
        &self.machine
    }
}
