//! The rows of a report, its tables and figures.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::Plan;
use super::load::Tally;
use crate::harness::plot::{Figure, Figures};
use crate::harness::{Cells, Report};
use crate::machine::Machine;
use crate::markdown::Table;
use crate::result::{Summary, real};

/// One configuration of one experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// `clients`, `alone`, `pair`, `naive alone`, `naive`, `beside`, `mixed`, `mixed large`,
    /// `cancel` or `open`.
    pub experiment: String,
    /// The workload.
    pub workload: String,
    /// Its scale.
    pub scale: f64,
    /// The query, if it is one; for `beside`, the small one that the latencies are of.
    pub query: String,
    /// The concurrent query.
    pub other: String,
    /// The policy of admission, for `open`.
    pub policy: String,
    /// Number of concurrent clients.
    pub clients: u64,
    /// Seconds from the start to the last answer.
    pub seconds: f64,
    /// The limit of device memory.
    pub limit_bytes: u64,
    /// The maximum use of device memory.
    pub peak_bytes: u64,
    /// Bytes of columns that the queries of a pair read together; 0 if the row is not of a pair.
    pub joint_bytes: u64,
    /// Number of completed queries.
    pub queries: u64,
    /// The same, per second.
    pub per_second: f64,
    /// Mean latency.
    pub mean_ms: Option<f64>,
    /// Median latency.
    pub p50_ms: Option<f64>,
    /// The latency that 99 of 100 queries do not exceed.
    pub p99_ms: Option<f64>,
    /// The longest latency.
    pub max_ms: Option<f64>,
    /// Bytes that crossed the link, in both directions.
    pub link_bytes: u64,
    /// Minimum time of the link for these bytes, as a share of the time: the DMA efficiency of MultiQx §7.
    pub link_share: Option<f64>,
    /// Mean number of concurrent pipelines on the device, including waits for their copies.
    pub device_share: f64,
    /// Queries per second relative to one client's, or for `open` to the first policy's.
    pub speedup: Option<f64>,
    /// Weighted speed-up of a pair side by side.
    pub weighted: Option<f64>,
    /// The same of the pair in turns.
    pub sequential: Option<f64>,
    /// p99 beside the other query over p99 alone.
    pub p99_ratio: Option<f64>,
    /// Number of failed queries.
    pub failures: u64,
    /// Number of results that differ from the first run's.
    pub wrong: u64,
    /// Number of queries with a part that fell back to the CPU.
    pub fell_back: u64,
    /// Seed of the orders of queries.
    pub seed: u64,
    /// Settings, as `name=value`.
    pub settings: String,
    /// The machine of the measurement.
    #[serde(flatten)]
    pub machine: Machine,
}

impl Row {
    pub(super) fn new(
        plan: &Plan,
        experiment: &str,
        clients: usize,
        tally: &Tally,
        (peak, limit): (u64, u64),
    ) -> Self {
        let settings = plan
            .settings
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let ms = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1e3);
        Self {
            experiment: experiment.to_string(),
            workload: plan.tables.workload.to_string(),
            scale: plan.tables.scale,
            query: String::new(),
            other: String::new(),
            policy: String::new(),
            clients: clients as u64,
            seconds: tally.seconds,
            limit_bytes: limit,
            peak_bytes: peak,
            joint_bytes: 0,
            queries: tally.latencies.len() as u64,
            per_second: tally.per_second(),
            mean_ms: ms(tally.mean(None)),
            p50_ms: ms(tally.percentile(50.0)),
            p99_ms: ms(tally.percentile(99.0)),
            max_ms: ms(tally.longest()),
            link_bytes: tally.link_bytes,
            link_share: (plan.ceilings.as_ref())
                .map(|ceilings| tally.link_bytes as f64 / ceilings.link / tally.seconds)
                .filter(|share| share.is_finite()),
            device_share: tally.device_seconds / tally.seconds.max(f64::MIN_POSITIVE),
            speedup: None,
            weighted: None,
            sequential: None,
            p99_ratio: None,
            failures: tally.failures,
            wrong: tally.wrong,
            fell_back: tally.fell_back,
            seed: plan.seed,
            settings: settings.collect::<Vec<_>>().join(" "),
            machine: plan.machine.clone(),
        }
    }

    /// Adds the failures of another client in the same configuration.
    pub(super) fn add_problems(&mut self, tally: &Tally) {
        self.failures += tally.failures;
        self.wrong += tally.wrong;
        self.fell_back += tally.fell_back;
    }

    /// The concurrent query, or a dash.
    fn beside(&self) -> &str {
        if self.other.is_empty() { "-" } else { &self.other }
    }

    fn cells(&self) -> Cells {
        vec![
            ("experiment", self.experiment.clone()),
            ("workload", self.workload.clone()),
            ("scale", self.scale.to_string()),
            ("query", self.query.clone()),
            ("other", self.other.clone()),
            ("policy", self.policy.clone()),
            ("clients", self.clients.to_string()),
            ("seconds", real(self.seconds)),
            ("limit_bytes", self.limit_bytes.to_string()),
            ("peak_bytes", self.peak_bytes.to_string()),
            ("joint_bytes", self.joint_bytes.to_string()),
            ("queries", self.queries.to_string()),
            ("per_second", real(self.per_second)),
            ("mean_ms", real(self.mean_ms)),
            ("p50_ms", real(self.p50_ms)),
            ("p99_ms", real(self.p99_ms)),
            ("max_ms", real(self.max_ms)),
            ("link_bytes", self.link_bytes.to_string()),
            ("link_share", real(self.link_share)),
            ("device_share", real(self.device_share)),
            ("speedup", real(self.speedup)),
            ("weighted", real(self.weighted)),
            ("sequential", real(self.sequential)),
            ("p99_ratio", real(self.p99_ratio)),
            ("failures", self.failures.to_string()),
            ("wrong", self.wrong.to_string()),
            ("fell_back", self.fell_back.to_string()),
            ("seed", self.seed.to_string()),
            ("settings", self.settings.clone()),
        ]
    }
}

/// A measured value of a row.
type Value = fn(&Row) -> Option<f64>;

/// All measurements.
#[derive(Debug, Clone)]
pub struct ConcurrencyReport {
    /// One row per configuration.
    pub rows: Vec<Row>,
    /// Distinct failures, wrong results and fallbacks to the CPU.
    pub problems: BTreeSet<String>,
    machine: Machine,
}

impl ConcurrencyReport {
    pub(super) fn new(machine: Machine) -> Self {
        Self {
            rows: Vec::new(),
            problems: BTreeSet::new(),
            machine,
        }
    }

    pub(super) fn push(&mut self, row: Row, tally: &Tally) {
        self.rows.push(row);
        self.problems.extend(tally.problems.iter().cloned());
    }

    /// Sets the speed-up of each policy relative to the first.
    pub(super) fn compare_policies(&mut self) {
        let first = self.of("open").next().map(|row| row.per_second);
        for row in self.rows.iter_mut().filter(|row| row.experiment == "open") {
            let ratio = first.map(|first| row.per_second / first);
            row.speedup = ratio.filter(|ratio| ratio.is_finite());
        }
    }

    /// Sets the speed-up of each number of clients relative to one client.
    pub(super) fn compare_clients(&mut self) {
        let one = self.of("clients").find(|row| row.clients == 1);
        let Some(one) = one.map(|row| row.per_second) else {
            return;
        };
        for row in self.rows.iter_mut().filter(|row| row.experiment == "clients") {
            row.speedup = Some(row.per_second / one).filter(|ratio| ratio.is_finite());
        }
    }

    /// Rows of an experiment.
    pub fn of(&self, experiment: &str) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.experiment == experiment)
    }

    /// The number of failed queries and wrong results. Without a manager, queries are expected to fail.
    pub fn defects(&self) -> u64 {
        let naive = |row: &Row| row.experiment.starts_with("naive");
        let failures = |row: &Row| if naive(row) { 0 } else { row.failures };
        self.rows.iter().map(|row| failures(row) + row.wrong).sum()
    }
}

/// Adds columns for queries that did not end normally.
fn counts(table: Table<&Row>) -> Table<&Row> {
    table
        .numbers("failures", |row| row.failures)
        .numbers("wrong", |row| row.wrong)
        .numbers("fell back", |row| row.fell_back)
}

/// A table and a blank line; empty for a table without rows.
fn section(table: Table<&Row>) -> String {
    match table.is_empty() {
        true => String::new(),
        false => format!("{table}\n"),
    }
}

impl Report for ConcurrencyReport {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn cells(row: &Row) -> Cells {
        row.cells()
    }

    /// Tables in Markdown, for the experiments that ran.
    fn summary(&self) -> String {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let clients = Table::of(self.of("clients"))
            .numbers("clients", |row| row.clients)
            .numbers("queries", |row| row.queries)
            .reals("queries/s", 2, |row| row.per_second)
            .reals("to one", 2, |row| row.speedup)
            .reals("p50 ms", 3, |row| row.p50_ms)
            .reals("p99 ms", 3, |row| row.p99_ms)
            .reals("peak MB", 3, |row| mb(row.peak_bytes))
            .reals("limit MB", 3, |row| mb(row.limit_bytes));
        let alone = Table::of(self.of("alone"))
            .words("query alone", |row| &row.query)
            .reals("reads MB", 3, |row| mb(row.joint_bytes))
            .numbers("queries", |row| row.queries)
            .reals("mean ms", 3, |row| row.mean_ms)
            .reals("p99 ms", 3, |row| row.p99_ms);
        let pairs = Table::of(self.of("pair"))
            .words("query", |row| &row.query)
            .words("other", |row| &row.other)
            .reals("together MB", 3, |row| mb(row.joint_bytes))
            .reals("limit MB", 3, |row| mb(row.limit_bytes))
            .reals("weighted", 3, |row| row.weighted)
            .reals("in turns", 3, |row| row.sequential)
            .reals("link", 2, |row| row.link_share)
            .reals("device", 2, |row| row.device_share);
        let mut text = section(counts(clients)) + &section(counts(alone)) + &section(counts(pairs));
        let ways: [(&str, Value); 2] = [
            ("side by side", |row| row.weighted),
            ("in turns", |row| row.sequential),
        ];
        for (name, value) in ways {
            let all: Vec<f64> = self.of("pair").filter_map(value).collect();
            if let Some(summary) = Summary::of(all.iter().copied()) {
                let mean = all.iter().sum::<f64>() / all.len() as f64;
                // Writing to a String does not fail.
                let _ = writeln!(
                    text,
                    "Weighted speed-up {name} of {} pairs: mean {mean:.3}, least {:.3}.\n",
                    all.len(),
                    summary.min
                );
            }
        }
        let naive = Table::of(self.of("naive"))
            .words("without the manager", |row| &row.query)
            .words("other", |row| &row.other)
            .reals("together MB", 3, |row| mb(row.joint_bytes))
            .numbers("answers", |row| row.queries)
            .numbers("failures", |row| row.failures)
            .reals("weighted", 3, |row| row.weighted)
            .reals("link", 2, |row| row.link_share)
            .reals("device", 2, |row| row.device_share);
        if !naive.is_empty() {
            let failing = self.of("naive").filter(|row| row.failures > 0).count();
            let _ = writeln!(
                text,
                "{failing} of {} pairs fail without the manager.\n",
                naive.len()
            );
        }
        let cancelled = Table::of(self.of("cancel"))
            .words("query cancelled", |row| &row.query)
            .numbers("times", |row| row.queries)
            .reals("p50 ms to the last effect", 3, |row| row.p50_ms)
            .reals("p99 ms", 3, |row| row.p99_ms)
            .reals("max ms", 3, |row| row.max_ms);
        let open = Table::of(self.of("open"))
            .words("admission", |row| &row.policy)
            .numbers("queries", |row| row.queries)
            .reals("queries/s", 2, |row| row.per_second)
            .reals("to the first", 2, |row| row.speedup)
            .reals("p50 ms", 3, |row| row.p50_ms)
            .reals("p99 ms", 3, |row| row.p99_ms)
            .reals("link", 2, |row| row.link_share)
            .reals("device", 2, |row| row.device_share);
        let beside = Table::of(self.of("beside"))
            .words("query", |row| &row.query)
            .words("beside", |row| row.beside())
            .numbers("queries", |row| row.queries)
            .reals("p50 ms", 3, |row| row.p50_ms)
            .reals("p99 ms", 3, |row| row.p99_ms)
            .reals("p99 to alone", 2, |row| row.p99_ratio);
        let mixed = Table::of(self.of("mixed"))
            .numbers("clients", |row| row.clients)
            .words("beside", |row| row.beside())
            .reals("queries/s", 2, |row| row.per_second)
            .reals("p50 ms", 3, |row| row.p50_ms)
            .reals("p99 ms", 3, |row| row.p99_ms)
            .reals("p99 to alone", 2, |row| row.p99_ratio);
        let large = Table::of(self.of("mixed large"))
            .words("large queries", |row| &row.query)
            .words("beside", |row| row.beside())
            .numbers("queries", |row| row.queries)
            .reals("mean ms", 3, |row| row.mean_ms)
            .reals("p99 ms", 3, |row| row.p99_ms);
        text += &section(naive);
        text += &section(cancelled);
        text += &section(counts(open));
        text += &section(counts(beside));
        text += &section(counts(mixed));
        text += &section(counts(large));
        for problem in &self.problems {
            let _ = writeln!(text, "* {}", problem.replace('\n', " "));
        }
        text
    }

    fn figures(&self) -> Vec<Figure> {
        let mut figures = Figures::default();
        for row in self.of("clients") {
            let clients = row.clients as f64;
            let lines = [
                ("throughput", "queries/s", Some(row.per_second)),
                ("p50", "ms", row.p50_ms),
                ("p99", "ms", row.p99_ms),
            ];
            for (line, unit, value) in lines {
                let name = if unit == "ms" { "latency" } else { "throughput" };
                figures.point(
                    name,
                    &format!("{name} of {}", row.workload),
                    ("clients", unit),
                    line,
                    (clients, value),
                );
            }
        }
        figures.finish()
    }

    fn machine(&self) -> &Machine {
        &self.machine
    }
}
