//! The rows of a report, its table of medians and its figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::harness::plot::{Figure, Figures};
use crate::harness::{Cells, Report};
use crate::machine::Machine;
use crate::markdown::Table;
use crate::measure::Ceilings;
use crate::result::{Summary, real};
use crate::workload::Query;

/// One measured run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The workload.
    pub workload: String,
    /// Its scale.
    pub scale: f64,
    /// The query.
    pub query: String,
    /// The limit in hundredths of `query_bytes`; `None`: no limit.
    pub share: Option<u32>,
    /// The limit.
    pub limit_bytes: u64,
    /// Bytes that the query keeps in device memory without a limit.
    pub query_bytes: u64,
    /// Bytes of columns in device memory before the run.
    pub resident_bytes: u64,
    /// Bytes that kernels read from device memory.
    pub device_bytes: u64,
    /// Bytes that crossed the link.
    pub link_bytes: u64,
    /// Number of pages evicted by the run.
    pub evicted_pages: u64,
    /// Number of the run, from 0.
    pub iteration: u32,
    /// Rows of the result.
    pub rows: u64,
    /// Time from the SQL text to the last row.
    pub total_ms: f64,
    /// Time of kernels, including waits for streamed data.
    pub kernel_ms: f64,
    /// Time of copies over the link.
    pub transfer_ms: f64,
    /// Lower bound by the measured rates; `None` if they were not measured.
    pub bound_ms: Option<f64>,
    /// Total time over the bound.
    pub ratio: Option<f64>,
    /// Time of the kernels over the bound.
    pub kernel_ratio: Option<f64>,
    /// The device of the run.
    pub device: String,
    /// Number of subtrees that finally ran on the CPU.
    pub fell_back: u64,
    /// The reasons for that.
    pub reasons: String,
    /// Settings, as `name=value`.
    pub settings: String,
    /// The machine of the measurement.
    #[serde(flatten)]
    pub machine: Machine,
}

/// Settings in one cell.
pub(super) fn settings(settings: &[(String, String)]) -> String {
    let settings = settings.iter().map(|(name, value)| format!("{name}={value}"));
    settings.collect::<Vec<_>>().join(" ")
}

impl Row {
    /// Sets the bound, and the times of the run relative to it.
    pub(super) fn set_bound(&mut self, ceilings: Option<Ceilings>) {
        self.bound_ms = ceilings.map(|rates| {
            let (read, link) = (
                self.resident_bytes as f64 / rates.device,
                self.link_bytes as f64 / rates.link,
            );
            1e3 * read.max(link)
        });
        let over = |time: f64| {
            self.bound_ms
                .filter(|bound| *bound > 0.0)
                .map(|bound| time / bound)
        };
        (self.ratio, self.kernel_ratio) = (over(self.total_ms), over(self.kernel_ms));
    }

    fn cells(&self) -> Cells {
        vec![
            ("workload", self.workload.clone()),
            ("scale", self.scale.to_string()),
            ("query", self.query.clone()),
            (
                "share",
                self.share.map_or_else(String::new, |share| share.to_string()),
            ),
            ("limit_bytes", self.limit_bytes.to_string()),
            ("query_bytes", self.query_bytes.to_string()),
            ("resident_bytes", self.resident_bytes.to_string()),
            ("device_bytes", self.device_bytes.to_string()),
            ("link_bytes", self.link_bytes.to_string()),
            ("evicted_pages", self.evicted_pages.to_string()),
            ("iteration", self.iteration.to_string()),
            ("rows", self.rows.to_string()),
            ("total_ms", real(self.total_ms)),
            ("kernel_ms", real(self.kernel_ms)),
            ("transfer_ms", real(self.transfer_ms)),
            ("bound_ms", real(self.bound_ms)),
            ("ratio", real(self.ratio)),
            ("kernel_ratio", real(self.kernel_ratio)),
            ("device", self.device.clone()),
            ("fell_back", self.fell_back.to_string()),
            ("reasons", self.reasons.clone()),
            ("settings", self.settings.clone()),
        ]
    }
}

/// A measured value of a row.
type Value = fn(&Row) -> Option<f64>;

/// The median of a value over runs that have it.
fn median(runs: &[Row], value: Value) -> Option<f64> {
    Summary::of(runs.iter().filter_map(value)).map(|all| all.median)
}

/// A limit in words.
fn limit(share: Option<u32>) -> String {
    share.map_or_else(|| "no limit".to_string(), |share| format!("{share} %"))
}

/// The sum of the medians of several queries, in milliseconds.
#[derive(Default)]
struct Sum {
    queries: u32,
    total: f64,
    kernel: f64,
    bound: f64,
}

/// All measurements.
#[derive(Debug, Clone)]
pub struct ResidencyReport {
    /// One row per run: by query, those without a limit first, then by share.
    pub rows: Vec<Row>,
    machine: Machine,
}

impl ResidencyReport {
    pub(super) fn new(machine: Machine) -> Self {
        Self {
            rows: Vec::new(),
            machine,
        }
    }

    /// Sorts the rows into the requested order.
    pub(super) fn sort(&mut self, queries: &[Query], shares: &[u32]) {
        let query = |row: &Row| queries.iter().position(|query| query.name == row.query);
        let share = |row: &Row| {
            row.share
                .and_then(|of| shares.iter().position(|share| *share == of))
        };
        self.rows
            .sort_by_key(|row| (query(row), share(row), row.iteration));
    }

    /// The runs of each query at each share.
    fn cases(&self) -> impl Iterator<Item = &[Row]> {
        self.rows
            .chunk_by(|a, b| (&a.query, a.share) == (&b.query, b.share))
    }

    /// The summed medians of each flight of queries, and of all queries, at each share. The digit before the
    /// point identifies a flight of the Star Schema Benchmark. Empty for workloads without flights.
    fn flights(&self) -> String {
        let mut sums: BTreeMap<(String, Option<u32>), Sum> = BTreeMap::new();
        for runs in self.cases() {
            let first = &runs[0];
            let Some((flight, _)) = first.query.split_once('.') else {
                return String::new();
            };
            for name in [format!("flight {flight}"), "flights 1 to 4".to_string()] {
                let sum = sums.entry((name, first.share)).or_default();
                sum.queries += 1;
                sum.total += median(runs, |row| Some(row.total_ms)).unwrap_or(f64::NAN);
                sum.kernel += median(runs, |row| Some(row.kernel_ms)).unwrap_or(f64::NAN);
                sum.bound += median(runs, |row| row.bound_ms).unwrap_or(f64::NAN);
            }
        }
        let finite = |value: f64| Some(value).filter(|value| value.is_finite());
        let table = Table::of(&sums)
            .words("queries", |((name, _), _)| name)
            .numbers("share", |((_, share), _)| limit(*share))
            .numbers("number", |(_, sum)| sum.queries)
            .reals("total ms", 3, |(_, sum)| finite(sum.total))
            .reals("kernel ms", 3, |(_, sum)| finite(sum.kernel))
            .reals("bound ms", 3, |(_, sum)| finite(sum.bound))
            .reals("total / bound", 2, |(_, sum)| finite(sum.total / sum.bound))
            .reals("kernel / bound", 2, |(_, sum)| finite(sum.kernel / sum.bound));
        format!("\n{table}")
    }
}

impl Report for ResidencyReport {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn cells(row: &Row) -> Cells {
        row.cells()
    }

    /// Medians of each query at each share, as a table in Markdown.
    fn summary(&self) -> String {
        let table = Table::of(self.cases())
            .words("query", |runs| &runs[0].query)
            .numbers("share", |runs| limit(runs[0].share))
            .reals("limit", 3, |runs| runs[0].limit_bytes as f64 / 1e6)
            .reals("resident MB", 3, |runs| {
                median(runs, |row| Some(row.resident_bytes as f64 / 1e6))
            })
            .reals("link MB", 3, |runs| {
                median(runs, |row| Some(row.link_bytes as f64 / 1e6))
            })
            .reals("total ms", 3, |runs| median(runs, |row| Some(row.total_ms)))
            .reals("kernel ms", 3, |runs| median(runs, |row| Some(row.kernel_ms)))
            .reals("bound ms", 3, |runs| median(runs, |row| row.bound_ms))
            .reals("total / bound", 2, |runs| median(runs, |row| row.ratio))
            .reals("kernel / bound", 2, |runs| median(runs, |row| row.kernel_ratio))
            .words("ran on", |runs| &runs[0].device);
        table.to_string() + &self.flights()
    }

    fn figures(&self) -> Vec<Figure> {
        let mut figures = Figures::default();
        for runs in self.cases() {
            let (query, Some(share)) = (&runs[0].query, runs[0].share) else {
                continue;
            };
            let lines: [(&str, Value); 3] = [
                ("total", |row| Some(row.total_ms)),
                ("kernels", |row| Some(row.kernel_ms)),
                ("bound", |row| row.bound_ms),
            ];
            for (line, value) in lines {
                figures.point(
                    &format!("q{query}"),
                    &format!("query {query}, limited device memory"),
                    ("limit, % of its bytes", "ms"),
                    line,
                    (f64::from(share), median(runs, value)),
                );
            }
        }
        figures.finish()
    }

    fn machine(&self) -> &Machine {
        &self.machine
    }
}
