//! The rows of a report, its tables and figures.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::Plan;
use super::load::Tally;
use crate::harness::plot::{Figure, Figures};
use crate::harness::{Cells, Report};
use crate::machine::Machine;
use crate::result::Summary;

/// One configuration of one experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// `clients`, `alone`, `pair`, `naive alone`, `naive`, `beside`, `cancel` or `open`.
    pub experiment: String,
    /// The workload.
    pub workload: String,
    /// Its scale.
    pub scale: f64,
    /// The query, where it is one; of `beside` the small one, whose latencies these are.
    pub query: String,
    /// The query that ran beside it.
    pub other: String,
    /// The policy of admission that is compared, of `open`.
    pub policy: String,
    /// Clients at once.
    pub clients: u64,
    /// From the start to the last answer.
    pub seconds: f64,
    /// The limit on device memory.
    pub limit_bytes: u64,
    /// The greatest use of device memory.
    pub peak_bytes: u64,
    /// Bytes of columns that the queries of a pair read together; 0 where no pair was asked for.
    pub joint_bytes: u64,
    /// Queries that came to an end.
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
    /// Bytes that crossed the link, both ways.
    pub link_bytes: u64,
    /// Share of the time in which the link could have copied them: the efficiency of DMA of MultiQx §7.
    pub link_share: Option<f64>,
    /// Pipelines at work on the device at one time, on average, waits for their copies included.
    pub device_share: f64,
    /// Queries per second relative to one client's, or of `open` to the first policy's.
    pub speedup: Option<f64>,
    /// Weighted speed-up of a pair side by side.
    pub weighted: Option<f64>,
    /// The same of the pair in turns.
    pub sequential: Option<f64>,
    /// p99 beside the other query over p99 alone.
    pub p99_ratio: Option<f64>,
    /// Queries that failed.
    pub failures: u64,
    /// Results that were not those of the first run.
    pub wrong: u64,
    /// Queries of which something fell back to the CPU.
    pub fell_back: u64,
    /// Seed of the orders of queries.
    pub seed: u64,
    /// Settings, as `name=value`.
    pub settings: String,
    /// The machine it was measured on.
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

    fn cells(&self) -> Cells {
        let real = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.6}"));
        vec![
            ("experiment", self.experiment.clone()),
            ("workload", self.workload.clone()),
            ("scale", self.scale.to_string()),
            ("query", self.query.clone()),
            ("other", self.other.clone()),
            ("policy", self.policy.clone()),
            ("clients", self.clients.to_string()),
            ("seconds", real(Some(self.seconds))),
            ("limit_bytes", self.limit_bytes.to_string()),
            ("peak_bytes", self.peak_bytes.to_string()),
            ("joint_bytes", self.joint_bytes.to_string()),
            ("queries", self.queries.to_string()),
            ("per_second", real(Some(self.per_second))),
            ("mean_ms", real(self.mean_ms)),
            ("p50_ms", real(self.p50_ms)),
            ("p99_ms", real(self.p99_ms)),
            ("max_ms", real(self.max_ms)),
            ("link_bytes", self.link_bytes.to_string()),
            ("link_share", real(self.link_share)),
            ("device_share", real(Some(self.device_share))),
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
    /// One per configuration.
    pub rows: Vec<Row>,
    /// Failures, wrong results and fallbacks to the CPU, each once.
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

    /// Sets each policy beside the first.
    pub(super) fn compare_policies(&mut self) {
        let first = self.of("open").next().map(|row| row.per_second);
        for row in self.rows.iter_mut().filter(|row| row.experiment == "open") {
            let ratio = first.map(|first| row.per_second / first);
            row.speedup = ratio.filter(|ratio| ratio.is_finite());
        }
    }

    /// Sets each number of clients beside one client.
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

    /// Queries that failed or whose result was wrong. Without a manager, queries are meant to fail.
    pub fn defects(&self) -> u64 {
        let naive = |row: &Row| row.experiment.starts_with("naive");
        let failures = |row: &Row| if naive(row) { 0 } else { row.failures };
        self.rows.iter().map(|row| failures(row) + row.wrong).sum()
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

    /// Tables in Markdown, of the experiments there were.
    fn summary(&self) -> String {
        let cell = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_string(), |value| format!("{value:.digits$}"))
        };
        let mb = |bytes: u64| format!("{:.3}", bytes as f64 / 1e6);
        let counts = |row: &Row| format!("{} | {} | {}", row.failures, row.wrong, row.fell_back);
        let mut text = String::new();
        // Writing to a String does not fail.
        let table = |text: &mut String, head: &str, right: usize, lines: Vec<String>| {
            let columns = head.split('|').count();
            let rules = (0..columns).map(|column| {
                if column + right < columns {
                    "| --- "
                } else {
                    "| ---: "
                }
            });
            let _ = writeln!(text, "| {head} |\n{}|", rules.collect::<String>());
            for line in lines {
                let _ = writeln!(text, "| {line} |");
            }
            text.push('\n');
        };
        let clients = self.of("clients").map(|row| {
            let (p50, p99) = (cell(row.p50_ms, 3), cell(row.p99_ms, 3));
            format!(
                "{} | {} | {:.2} | {} | {p50} | {p99} | {} | {} | {}",
                row.clients,
                row.queries,
                row.per_second,
                cell(row.speedup, 2),
                mb(row.peak_bytes),
                mb(row.limit_bytes),
                counts(row)
            )
        });
        let clients: Vec<_> = clients.collect();
        if !clients.is_empty() {
            let head = "clients | queries | queries/s | to one | p50 ms | p99 ms | peak MB | limit MB | failures | wrong | fell back";
            table(&mut text, head, 11, clients);
        }
        let alone = self.of("alone").map(|row| {
            let (mean, p99) = (cell(row.mean_ms, 3), cell(row.p99_ms, 3));
            format!(
                "{} | {} | {} | {mean} | {p99} | {}",
                row.query,
                mb(row.joint_bytes),
                row.queries,
                counts(row)
            )
        });
        let alone: Vec<_> = alone.collect();
        if !alone.is_empty() {
            let head = "query alone | reads MB | queries | mean ms | p99 ms | failures | wrong | fell back";
            table(&mut text, head, 7, alone);
        }
        let pairs = self.of("pair").map(|row| {
            let (weighted, sequential) = (cell(row.weighted, 3), cell(row.sequential, 3));
            format!(
                "{} | {} | {} | {} | {weighted} | {sequential} | {} | {:.2} | {}",
                row.query,
                row.other,
                mb(row.joint_bytes),
                mb(row.limit_bytes),
                cell(row.link_share, 2),
                row.device_share,
                counts(row)
            )
        });
        let pairs: Vec<_> = pairs.collect();
        if !pairs.is_empty() {
            let head = "query | other | together MB | limit MB | weighted | in turns | link | device | failures | wrong | fell back";
            table(&mut text, head, 9, pairs);
            let ways: [(&str, Value); 2] = [
                ("side by side", |row| row.weighted),
                ("in turns", |row| row.sequential),
            ];
            for (name, value) in ways {
                let all: Vec<f64> = self.of("pair").filter_map(value).collect();
                if let Some(summary) = Summary::of(all.iter().copied()) {
                    let mean = all.iter().sum::<f64>() / all.len() as f64;
                    let _ = writeln!(
                        text,
                        "Weighted speed-up {name} of {} pairs: mean {mean:.3}, least {:.3}.\n",
                        all.len(),
                        summary.min
                    );
                }
            }
        }
        let share = |row: &Row| (cell(row.link_share, 2), format!("{:.2}", row.device_share));
        let naive = self.of("naive").map(|row| {
            let (link, device) = share(row);
            format!(
                "{} | {} | {} | {} | {} | {} | {link} | {device}",
                row.query,
                row.other,
                mb(row.joint_bytes),
                row.queries,
                row.failures,
                cell(row.weighted, 3),
            )
        });
        let naive: Vec<_> = naive.collect();
        if !naive.is_empty() {
            let failing = self.of("naive").filter(|row| row.failures > 0).count();
            let head =
                "without the manager | other | together MB | answers | failures | weighted | link | device";
            let _ = writeln!(
                text,
                "{failing} of {} pairs fail without the manager.\n",
                naive.len()
            );
            table(&mut text, head, 6, naive);
        }
        let cancelled = self.of("cancel").map(|row| {
            let (p50, p99, max) = (cell(row.p50_ms, 3), cell(row.p99_ms, 3), cell(row.max_ms, 3));
            format!("{} | {} | {p50} | {p99} | {max}", row.query, row.queries)
        });
        let cancelled: Vec<_> = cancelled.collect();
        if !cancelled.is_empty() {
            let head = "query cancelled | times | p50 ms to the last effect | p99 ms | max ms";
            table(&mut text, head, 4, cancelled);
        }
        let open = self.of("open").map(|row| {
            let (p50, p99) = (cell(row.p50_ms, 3), cell(row.p99_ms, 3));
            let (link, device) = share(row);
            format!(
                "{} | {} | {:.2} | {} | {p50} | {p99} | {link} | {device} | {}",
                row.policy,
                row.queries,
                row.per_second,
                cell(row.speedup, 2),
                counts(row)
            )
        });
        let open: Vec<_> = open.collect();
        if !open.is_empty() {
            let head = "admission | queries | queries/s | to the first | p50 ms | p99 ms | link | device | failures | wrong | fell back";
            table(&mut text, head, 10, open);
        }
        let beside = self.of("beside").map(|row| {
            let other = if row.other.is_empty() { "-" } else { &row.other };
            let (p50, p99) = (cell(row.p50_ms, 3), cell(row.p99_ms, 3));
            format!(
                "{} | {other} | {} | {p50} | {p99} | {} | {}",
                row.query,
                row.queries,
                cell(row.p99_ratio, 2),
                counts(row)
            )
        });
        let beside: Vec<_> = beside.collect();
        if !beside.is_empty() {
            let head =
                "query | beside | queries | p50 ms | p99 ms | p99 to alone | failures | wrong | fell back";
            table(&mut text, head, 7, beside);
        }
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
