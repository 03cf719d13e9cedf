//! Results of queries: one self-describing row per run, and their files.
//!
//! Every run is a row, including warm-ups and first runs; summaries show medians. A row contains everything
//! that is required to repeat the run (machine, commit, seed, every parameter) and all observations: the time
//! of each phase, bytes, and the fraction of the measured ceiling. The fraction is never clamped: a fraction
//! above 1 shows that bytes were counted wrongly.
//!
//! ```text
//! bench/results/2026-11-20-nvidia-h200/
//!     tpch-hot.csv     rows, for plots
//!     tpch-hot.jsonl   the same rows, one JSON object a line
//!     tpch-hot.md      a section: the command, the commit, a table of medians
//!     README.md        the machine, and the sections of all commands
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use galatea::{QueryPhases, QueryReport};
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::markdown::Table;
use crate::{BenchError, Result};

/// The engine that ran a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Galatea, on the device of the row.
    Galatea,
    /// DataFusion's CPU operators, in the same binary.
    DataFusion,
    /// DuckDB, through its Python module.
    DuckDb,
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Galatea => "galatea",
            Self::DataFusion => "datafusion",
            Self::DuckDb => "duckdb",
        })
    }
}

/// One run of one query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultRow {
    /// The benchmark: `tpch`, `tpcds`, `ssb`, `micro`, `hits`.
    pub benchmark: String,
    /// The query's name.
    pub query: String,
    /// The engine that ran it.
    pub engine: Engine,
    /// The mode: residency of the data, and the engine (`hot`, `host`, `parquet`, `cpu`, `memory` and
    /// others).
    pub mode: String,
    /// The device of the query: `GPU`, `CPU`, `GPU and CPU`.
    pub device: String,
    /// The reasons that parts ran on the CPU, joined by semicolons.
    pub reasons: String,
    /// The number of the run, from 0. Runs before the first measured one have `warmup`.
    pub iteration: u32,
    /// Whether it is a warm-up run, which medians exclude.
    pub warmup: bool,
    /// Scale factor of the data.
    pub scale: f64,
    /// Seed of the data; 0 if the generator has none.
    pub seed: u64,
    /// Every other parameter: settings, compression, threads.
    pub parameters: BTreeMap<String, String>,
    /// Rows of the result.
    pub rows: u64,
    /// Seconds from the SQL text to the physical plan.
    pub planning_s: f64,
    /// Seconds of generating and compiling kernels.
    pub compile_s: f64,
    /// Seconds of reading and encoding sources.
    pub load_s: f64,
    /// Seconds of copies over the link.
    pub transfer_s: f64,
    /// Seconds of kernels.
    pub kernel_s: f64,
    /// Seconds from the SQL text to the last row.
    pub total_s: f64,
    /// Bytes that kernels read from device memory.
    pub device_bytes: u64,
    /// Bytes that crossed the link.
    pub link_bytes: u64,
    /// The measured rate that bounds this mode, in bytes per second: of device memory for hot queries, of the
    /// link for host-resident ones.
    pub ceiling: Option<f64>,
    /// The reached rate, bytes by time, as a fraction of the ceiling.
    pub fraction: Option<f64>,
    /// The machine of the measurement.
    #[serde(flatten)]
    pub machine: Machine,
}

impl ResultRow {
    /// Sets the phases from the engine's report, and the total measured around it.
    pub fn observe(&mut self, report: Option<&QueryReport>, planning: Duration, total: Duration) {
        let phases = report.map_or_else(QueryPhases::default, |report| report.phases);
        // The engine's own time of planning is more precise; the clock around it includes the caller.
        let planning = if phases.planning.is_zero() {
            planning
        } else {
            phases.planning
        };
        self.planning_s = planning.as_secs_f64();
        self.compile_s = phases.compile.as_secs_f64();
        self.load_s = phases.load.as_secs_f64();
        self.transfer_s = phases.transfer.as_secs_f64();
        self.kernel_s = phases.kernel.as_secs_f64();
        self.total_s = total.as_secs_f64();
        if let Some(report) = report {
            self.device = report.device.to_string();
            self.reasons = report.reasons.join("; ");
            self.device_bytes = report.device_bytes;
            self.link_bytes = report.link_bytes;
        }
    }

    /// Sets the ceiling, and the fraction of it that reading `bytes` in `seconds` reached.
    pub fn set_ceiling(&mut self, ceiling: f64, bytes: u64, seconds: f64) {
        self.ceiling = Some(ceiling);
        self.fraction = (seconds > 0.0 && bytes > 0).then(|| bytes as f64 / seconds / ceiling);
    }

    /// Names and values of the columns, in the order of the CSV file.
    fn cells(&self) -> Vec<(&'static str, String)> {
        let parameters: Vec<_> = self
            .parameters
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let seconds = |value: f64| format!("{value:.9}");
        let mut cells = vec![
            ("benchmark", self.benchmark.clone()),
            ("query", self.query.clone()),
            ("engine", self.engine.to_string()),
            ("mode", self.mode.clone()),
            ("device", self.device.clone()),
            ("reasons", self.reasons.clone()),
            ("iteration", self.iteration.to_string()),
            ("warmup", self.warmup.to_string()),
            ("scale", self.scale.to_string()),
            ("seed", self.seed.to_string()),
            ("parameters", parameters.join(" ")),
            ("rows", self.rows.to_string()),
            ("planning_s", seconds(self.planning_s)),
            ("compile_s", seconds(self.compile_s)),
            ("load_s", seconds(self.load_s)),
            ("transfer_s", seconds(self.transfer_s)),
            ("kernel_s", seconds(self.kernel_s)),
            ("total_s", seconds(self.total_s)),
            ("device_bytes", self.device_bytes.to_string()),
            ("link_bytes", self.link_bytes.to_string()),
            ("ceiling", optional(self.ceiling)),
            ("fraction", optional(self.fraction)),
        ];
        cells.extend(self.machine.cells());
        cells
    }
}

/// Median and spread of some runs, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Number of runs.
    pub runs: usize,
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The fastest.
    pub min: f64,
    /// The slowest.
    pub max: f64,
}

impl Summary {
    /// The summary of `seconds`; `None` without a run.
    pub fn of(seconds: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = seconds.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Self {
            runs: sorted.len(),
            median,
            min,
            max,
        })
    }

    /// Slowest minus fastest, relative to the median.
    pub fn spread(&self) -> f64 {
        if self.median > 0.0 {
            (self.max - self.min) / self.median
        } else {
            0.0
        }
    }
}

/// For each query, engine and mode: its first measured row, and the summary of all measured rows. Results are
/// in the order of the first rows.
pub fn summaries(rows: &[ResultRow]) -> Vec<(&ResultRow, Summary)> {
    let mut seen: Vec<(&ResultRow, Vec<f64>)> = Vec::new();
    for row in rows.iter().filter(|row| !row.warmup) {
        let same = |first: &ResultRow| {
            (&first.query, first.engine, &first.mode) == (&row.query, row.engine, &row.mode)
        };
        match seen.iter_mut().find(|(first, _)| same(first)) {
            Some((_, seconds)) => seconds.push(row.total_s),
            None => seen.push((row, vec![row.total_s])),
        }
    }
    seen.into_iter()
        .filter_map(|(row, seconds)| Some((row, Summary::of(seconds)?)))
        .collect()
}

/// The directory of a machine's results of a day, below `root`.
pub fn directory(root: &Path, machine: &Machine) -> PathBuf {
    root.join(format!("{}-{}", machine.date, machine.slug()))
}

/// Writes `<name>.csv`, `<name>.jsonl`, the section `<name>.md` with `command`, and the README with all
/// sections. Returns the directory.
///
/// Replaces files of the same name: a name identifies one command, and its last run of a day is kept.
pub fn write(root: &Path, name: &str, command: &str, rows: &[ResultRow]) -> Result<PathBuf> {
    let Some(first) = rows.first() else {
        return Ok(root.to_path_buf());
    };
    let csv = csv_of(rows.iter().map(ResultRow::cells));
    write_files(
        root,
        name,
        &first.machine,
        &csv,
        &json_lines(rows),
        &section(name, command, &first.machine, &table(rows)),
    )
}

/// Writes the files and the section of a command, and the README of the directory with all sections. Returns
/// the directory.
pub(crate) fn write_files(
    root: &Path,
    name: &str,
    machine: &Machine,
    csv: &str,
    json_lines: &str,
    section: &str,
) -> Result<PathBuf> {
    let directory = directory(root, machine);
    fs::create_dir_all(&directory).map_err(BenchError::io("create", &directory))?;
    let put = |file: &str, text: &str| {
        let path = directory.join(file);
        fs::write(&path, text).map_err(BenchError::io("write", &path))
    };
    put(&format!("{name}.csv"), csv)?;
    put(&format!("{name}.jsonl"), json_lines)?;
    put(&format!("{name}.md"), section)?;
    put("README.md", &readme(&directory, machine)?)?;
    Ok(directory)
}

/// Rows of named cells as CSV, with a header.
pub(crate) fn csv_of(rows: impl Iterator<Item = Vec<(&'static str, String)>>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let written = "writing to memory";
    for (number, cells) in rows.enumerate() {
        if number == 0 {
            writer
                .write_record(cells.iter().map(|(name, _)| name))
                .expect(written);
        }
        writer
            .write_record(cells.iter().map(|(_, cell)| cell))
            .expect(written);
    }
    let text = writer.into_inner().expect(written);
    String::from_utf8_lossy(&text).into_owned()
}

/// Rows as JSON, one per line.
pub(crate) fn json_lines<R: Serialize>(rows: &[R]) -> String {
    let line = |row| serde_json::to_string(row).expect("a row is plain data") + "\n";
    rows.iter().map(line).collect()
}

/// Names and values of the columns that identify the run of a row: seed, machine, commit, date, version.
pub fn origin(machine: &Machine, seed: u64) -> (String, String) {
    let mut cells = vec![("seed", seed.to_string())];
    cells.extend(machine.cells());
    let csv = csv_of(std::iter::once(cells));
    let (names, values) = csv.trim_end().split_once('\n').unwrap_or_default();
    (names.to_string(), values.to_string())
}

/// A number of a CSV file with six decimals; empty for a missing number.
pub(crate) fn real(value: impl Into<Option<f64>>) -> String {
    value
        .into()
        .map_or_else(String::new, |value| format!("{value:.6}"))
}

/// A number of a CSV file with all of its digits; empty for a missing number.
pub(crate) fn optional(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:e}"))
}

/// The section of one command: the command to repeat it, and its tables.
pub(crate) fn section(name: &str, command: &str, machine: &Machine, tables: &str) -> String {
    let commit = &machine.commit;
    format!("## {name}\n\n```\n{command}\n```\n\nCommit {commit}.\n\n{tables}\n")
}

/// Medians and spreads as a table in Markdown, in milliseconds.
pub fn table(rows: &[ResultRow]) -> String {
    let table = Table::of(summaries(rows))
        .words("query", |(row, _)| &row.query)
        .words("engine", |(row, _)| row.engine)
        .words("mode", |(row, _)| &row.mode)
        .words("device", |(row, _)| &row.device)
        .reals("median ms", 3, |(_, summary)| summary.median * 1e3)
        .numbers("spread", |(_, summary)| {
            format!("{:.0} %", summary.spread() * 100.0)
        })
        .reals("kernel ms", 3, |(row, _)| {
            Some(row.kernel_s * 1e3).filter(|ms| *ms > 0.0)
        })
        .reals("fraction", 2, |(row, _)| row.fraction)
        .numbers("rows", |(row, _)| row.rows);
    table.to_string()
}

/// The directory's README: its sections in the order of their names.
fn readme(directory: &Path, machine: &Machine) -> Result<String> {
    let mut sections = Vec::new();
    for entry in fs::read_dir(directory)
        .map_err(BenchError::io("read", directory))?
        .flatten()
    {
        let path = entry.path();
        let is_section =
            path.extension().is_some_and(|e| e == "md") && path.file_stem().is_some_and(|s| s != "README");
        if is_section {
            let text = fs::read_to_string(&path).map_err(BenchError::io("read", &path))?;
            sections.push(text);
        }
    }
    sections.sort();
    let title = format!("# Results of {} on {}\n\n", machine.date, machine.slug());
    let about = format!(
        "{}. Galatea {}. Every run is a row of the CSV file (and of the JSON lines); the tables here are medians over the runs that are no warm-up, spread is (slowest - fastest) / median.\n\n",
        machine.description, machine.version
    );
    Ok(title + &about + &sections.join("\n"))
}

#[cfg(test)]
impl ResultRow {
    /// A run of a query for tests.
    pub(crate) fn example(query: &str, total_s: f64) -> Self {
        Self {
            benchmark: "tpch".to_string(),
            query: query.to_string(),
            engine: Engine::Galatea,
            mode: "hot".to_string(),
            device: "CPU".to_string(),
            reasons: "a, \"b\"".to_string(),
            iteration: 0,
            warmup: false,
            scale: 0.01,
            seed: 0,
            parameters: BTreeMap::from([("galatea.device".to_string(), "cpu".to_string())]),
            rows: 4,
            planning_s: 0.0,
            compile_s: 0.0,
            load_s: 0.0,
            transfer_s: 0.0,
            kernel_s: 0.0,
            total_s,
            device_bytes: 0,
            link_bytes: 0,
            ceiling: None,
            fraction: None,
            machine: Machine {
                description: "Test CPU, 2 cores, 4 GiB".to_string(),
                commit: "abc".to_string(),
                date: "2026-01-02".to_string(),
                version: "0.1.0".to_string(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use galatea::QueryDevice;

    fn row(query: &str, total_s: f64, warmup: bool) -> ResultRow {
        ResultRow {
            warmup,
            ..ResultRow::example(query, total_s)
        }
    }

    #[test]
    fn medians_exclude_warm_up_runs() {
        let rows = [
            row("1", 9.0, true),
            row("1", 3.0, false),
            row("1", 1.0, false),
            row("1", 2.0, false),
            row("6", 5.0, false),
        ];
        let summaries = summaries(&rows);
        assert_eq!(summaries.len(), 2);
        assert_eq!(
            summaries[0].1,
            Summary {
                runs: 3,
                median: 2.0,
                min: 1.0,
                max: 3.0
            }
        );
        assert!((summaries[0].1.spread() - 1.0).abs() < 1e-12);
        assert_eq!(Summary::of([1.0, 2.0]).map(|s| s.median), Some(1.5));
        assert_eq!(Summary::of([]), None);
    }

    #[test]
    fn rows_are_written_with_their_command_and_read_back() -> Result<()> {
        let root = std::env::temp_dir().join(format!("galatea-results-{}", std::process::id()));
        let rows = [row("1", 1.0, false), row("6", 2.0, false)];
        let directory = write(&root, "tpch-hot", "galatea bench tpch", &rows)?;
        assert!(directory.ends_with("2026-01-02-test-cpu"));
        let read = |name: &str| fs::read_to_string(directory.join(name)).expect(name);
        let lines: Vec<ResultRow> = read("tpch-hot.jsonl")
            .lines()
            .map(|line| serde_json::from_str(line).expect(line))
            .collect();
        assert_eq!(lines, rows);
        let csv = read("tpch-hot.csv");
        assert_eq!(csv.lines().count(), 3);
        assert!(
            csv.contains("\"a, \"\"b\"\"\",0,false,0.01,0,galatea.device=cpu,4,"),
            "{csv}"
        );
        assert!(read("README.md").contains("galatea bench tpch"));
        fs::remove_dir_all(&root).expect("removed");
        Ok(())
    }

    #[test]
    fn fractions_are_not_clamped() {
        let mut row = row("1", 1.0, false);
        row.set_ceiling(100.0, 300, 2.0);
        assert_eq!(row.fraction, Some(1.5));
        let mut report = QueryReport::cpu(vec!["why".to_string()]);
        report.device = QueryDevice::Gpu;
        report.phases.kernel = Duration::from_millis(2);
        row.observe(Some(&report), Duration::from_millis(1), Duration::from_millis(5));
        assert_eq!(
            (row.device.as_str(), row.kernel_s, row.planning_s),
            ("GPU", 0.002, 0.001)
        );
    }
}
