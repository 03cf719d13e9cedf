//! The rows of a report, its table, and its figures.

use serde::{Deserialize, Serialize};

use super::rates::Rates;
use crate::harness::plot::{Figure, Figures};
use crate::harness::{Cells, Report};
use crate::machine::Machine;
use crate::markdown::Table;
use crate::result::{Summary, optional, real};

/// One join or grouping by one engine: medians and spread over its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The experiment.
    pub what: String,
    /// Number of rows of the build side; 0 for groupings.
    pub build_rows: u64,
    /// Number of rows of the probe side, or of the grouped table.
    pub probe_rows: u64,
    /// Number of groups; 0 for joins.
    pub groups: u64,
    /// `galatea`, `datafusion` or `duckdb`.
    pub engine: String,
    /// The device of the query.
    pub device: String,
    /// Number of runs.
    pub runs: u64,
    /// Median time from the SQL text to the result.
    pub ms: f64,
    /// Fastest run.
    pub min_ms: f64,
    /// Slowest run.
    pub max_ms: f64,
    /// Median time of kernels; `None` on the CPU.
    pub kernel_ms: Option<f64>,
    /// Stored bytes of the tables.
    pub stored_bytes: u64,
    /// Bytes that kernels scan.
    pub bytes: u64,
    /// Seconds of generating and encoding the tables.
    pub generate_s: f64,
    /// Measured random reads per second in a table of that size.
    pub reads: Option<f64>,
    /// Measured random writes per second there.
    pub writes: Option<f64>,
    /// The minimum time of a join that stores and looks up every row directly, by these rates.
    pub direct_bound_ms: Option<f64>,
    /// The minimum time of a join that first partitions its rows.
    pub partitioned_bound_ms: Option<f64>,
    /// The shorter bound over the time of the kernels.
    pub fraction: Option<f64>,
    /// The reasons that parts ran on the CPU.
    pub reasons: String,
    /// Settings of the session.
    pub settings: String,
    /// The machine of the measurement.
    #[serde(flatten)]
    pub machine: Machine,
}

/// Medians and spread of runs.
#[derive(Debug, Default)]
pub(super) struct Times {
    pub(super) total: Option<Summary>,
    pub(super) kernel: Option<Summary>,
}

impl Row {
    pub(super) fn new(what: &str, machine: Machine) -> Self {
        Self {
            what: what.to_string(),
            build_rows: 0,
            probe_rows: 0,
            groups: 0,
            engine: "galatea".to_string(),
            device: String::new(),
            runs: 0,
            ms: f64::NAN,
            min_ms: f64::NAN,
            max_ms: f64::NAN,
            kernel_ms: None,
            stored_bytes: 0,
            bytes: 0,
            generate_s: 0.0,
            reads: None,
            writes: None,
            direct_bound_ms: None,
            partitioned_bound_ms: None,
            fraction: None,
            reasons: String::new(),
            settings: String::new(),
            machine,
        }
    }

    /// Sets times, and bounds by rates.
    pub(super) fn set(&mut self, times: &Times, rates: Option<Rates>) {
        if let Some(total) = times.total {
            self.runs = total.runs as u64;
            (self.ms, self.min_ms, self.max_ms) = (1e3 * total.median, 1e3 * total.min, 1e3 * total.max);
        }
        self.kernel_ms = times.kernel.map(|kernel| 1e3 * kernel.median);
        let Some(rates) = rates else { return };
        let (build, probe) = (self.build_rows as f64, self.probe_rows as f64);
        let direct = 1e3 * (build / rates.writes + probe / rates.reads);
        let partitioned = 1e3
            * (3.0 * self.stored_bytes as f64 / rates.copy
                + build / rates.near_writes
                + probe / rates.near_reads);
        (self.reads, self.writes) = (Some(rates.reads), Some(rates.writes));
        (self.direct_bound_ms, self.partitioned_bound_ms) = (Some(direct), Some(partitioned));
        self.fraction = self.kernel_ms.map(|kernel| direct.min(partitioned) / kernel);
    }

    /// Rows per second, in units of 10^9, for a time in milliseconds.
    fn rate(&self, ms: f64) -> f64 {
        (self.build_rows + self.probe_rows) as f64 / ms / 1e6
    }
}

/// All measurements.
#[derive(Debug, Clone)]
pub struct JoinsReport {
    /// The rows, in the order of measurement.
    pub rows: Vec<Row>,
    machine: Machine,
}

impl JoinsReport {
    pub(super) fn new(machine: Machine) -> Self {
        Self {
            rows: Vec::new(),
            machine,
        }
    }
}

impl Report for JoinsReport {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn cells(row: &Row) -> Cells {
        vec![
            ("what", row.what.clone()),
            ("build_rows", row.build_rows.to_string()),
            ("probe_rows", row.probe_rows.to_string()),
            ("groups", row.groups.to_string()),
            ("engine", row.engine.clone()),
            ("device", row.device.clone()),
            ("runs", row.runs.to_string()),
            ("ms", real(row.ms)),
            ("min_ms", real(row.min_ms)),
            ("max_ms", real(row.max_ms)),
            ("kernel_ms", optional(row.kernel_ms)),
            ("stored_bytes", row.stored_bytes.to_string()),
            ("bytes", row.bytes.to_string()),
            ("generate_s", real(row.generate_s)),
            ("reads", optional(row.reads)),
            ("writes", optional(row.writes)),
            ("direct_bound_ms", optional(row.direct_bound_ms)),
            ("partitioned_bound_ms", optional(row.partitioned_bound_ms)),
            ("fraction", optional(row.fraction)),
            ("reasons", row.reasons.clone()),
            ("settings", row.settings.clone()),
        ]
    }

    fn summary(&self) -> String {
        let table = Table::of(&self.rows)
            .words("what", |row| &row.what)
            .numbers("build rows", |row| row.build_rows)
            .numbers("rows", |row| row.probe_rows)
            .numbers("groups", |row| row.groups)
            .words("engine", |row| &row.engine)
            .words("ran on", |row| &row.device)
            .reals("kernels ms", 3, |row| row.kernel_ms)
            .reals("G rows/s", 3, |row| row.kernel_ms.map(|ms| row.rate(ms)))
            .reals("SQL to result ms", 3, |row| row.ms)
            .reals("G rows/s", 3, |row| row.rate(row.ms))
            .reals("direct bound ms", 3, |row| row.direct_bound_ms)
            .reals("partitioned bound ms", 3, |row| row.partitioned_bound_ms)
            .reals("of the shorter", 3, |row| row.fraction)
            .reals("stored GB", 3, |row| row.stored_bytes as f64 / 1e9);
        table.to_string()
    }

    /// For each experiment that varies one number, throughput over it.
    fn figures(&self) -> Vec<Figure> {
        let mut figures = Figures::default();
        for row in &self.rows {
            let (x, value) = match row.what.as_str() {
                "build-sizes" => ("rows of the build side", row.build_rows),
                "rows" => ("rows", row.probe_rows),
                "groups" => ("groups", row.groups),
                _ => continue,
            };
            let bound = match (row.direct_bound_ms, row.partitioned_bound_ms) {
                (Some(direct), Some(partitioned)) => Some(direct.min(partitioned)),
                _ => None,
            };
            for (line, ms) in [
                ("kernels", row.kernel_ms),
                ("SQL to result", Some(row.ms)),
                ("bound by random accesses", bound),
            ] {
                let rate = ms.map(|ms| row.rate(ms));
                let title = format!("cost over {x}");
                figures.point(&row.what, &title, (x, "G rows/s"), line, (value as f64, rate));
            }
        }
        figures.finish()
    }

    fn machine(&self) -> &Machine {
        &self.machine
    }
}
