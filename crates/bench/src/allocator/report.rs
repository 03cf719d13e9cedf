//! What was measured: rows, files, and the sentences that compare with the paper.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Experiment, plot};
use crate::machine::Machine;
use crate::result::{self, Summary};
use crate::{BenchError, Result};

/// One configuration of one experiment: medians over its runs, in milliseconds of device time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The experiment's name.
    pub experiment: String,
    /// The paper's figure.
    pub figure: u32,
    /// Strategy, floor, or another's allocator.
    pub allocator: String,
    /// Whether it was measured in this run, and not taken from the table of others.
    pub ours: bool,
    /// `warm`, `hold`, `share`, `floor`, `theory`.
    pub regime: String,
    /// Bytes of a request; the greatest of mixed ones.
    pub size: u64,
    /// Threads, each asking once.
    pub threads: u64,
    /// Pages of the pool.
    pub pages: u64,
    /// Free pages before.
    pub free: u64,
    /// Share of free pages; in the utilization experiment the share of the pool handed out.
    pub share: Option<f64>,
    /// Runs.
    pub runs: u64,
    /// Median of allocation (of the whole join in the case study).
    pub allocate_ms: Option<f64>,
    /// Fastest.
    pub allocate_min_ms: Option<f64>,
    /// Slowest.
    pub allocate_max_ms: Option<f64>,
    /// Median of freeing.
    pub release_ms: Option<f64>,
    /// Requests served in the last run.
    pub served: u64,
    /// Steps of a thread.
    pub tas: Option<f64>,
    /// Steps of a warp's slowest lane.
    pub was: Option<f64>,
    /// TAS by Equation 2 or 4.
    pub expected_tas: Option<f64>,
    /// Bound of WAS by Equation 3 or 5.
    pub was_bound: Option<f64>,
    /// Where it was measured.
    #[serde(flatten)]
    pub machine: Machine,
}

impl Row {
    pub(super) fn new(experiment: Experiment, allocator: &str, regime: &str, machine: &Machine) -> Self {
        Self {
            experiment: experiment.name().to_string(),
            figure: experiment.figure(),
            allocator: allocator.to_string(),
            ours: true,
            regime: regime.to_string(),
            size: 0,
            threads: 0,
            pages: 0,
            free: 0,
            share: None,
            runs: 0,
            allocate_ms: None,
            allocate_min_ms: None,
            allocate_max_ms: None,
            release_ms: None,
            served: 0,
            tas: None,
            was: None,
            expected_tas: None,
            was_bound: None,
            machine: machine.clone(),
        }
    }

    pub(super) fn set_allocate(&mut self, summary: Option<Summary>) {
        self.runs = summary.map_or(0, |summary| summary.runs as u64);
        self.allocate_ms = summary.map(|summary| summary.median * 1e3);
        self.allocate_min_ms = summary.map(|summary| summary.min * 1e3);
        self.allocate_max_ms = summary.map(|summary| summary.max * 1e3);
    }

    pub(super) fn set_release(&mut self, summary: Option<Summary>) {
        self.release_ms = summary.map(|summary| summary.median * 1e3);
    }

    fn cells(&self) -> Vec<(&'static str, String)> {
        let real = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.6}"));
        vec![
            ("experiment", self.experiment.clone()),
            ("figure", self.figure.to_string()),
            ("allocator", self.allocator.clone()),
            ("ours", self.ours.to_string()),
            ("regime", self.regime.clone()),
            ("size", self.size.to_string()),
            ("threads", self.threads.to_string()),
            ("pages", self.pages.to_string()),
            ("free", self.free.to_string()),
            ("share", real(self.share)),
            ("runs", self.runs.to_string()),
            ("allocate_ms", real(self.allocate_ms)),
            ("allocate_min_ms", real(self.allocate_min_ms)),
            ("allocate_max_ms", real(self.allocate_max_ms)),
            ("release_ms", real(self.release_ms)),
            ("served", self.served.to_string()),
            ("tas", real(self.tas)),
            ("was", real(self.was)),
            ("expected_tas", real(self.expected_tas)),
            ("was_bound", real(self.was_bound)),
            ("machine", self.machine.description.clone()),
            ("commit", self.machine.commit.clone()),
            ("date", self.machine.date.clone()),
            ("version", self.machine.version.clone()),
        ]
    }
}

/// The paper's outcome of an experiment beside ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The experiment.
    pub experiment: Experiment,
    /// What the paper says.
    pub paper: &'static str,
    /// What came out here.
    pub ours: String,
}

/// Everything that was measured.
#[derive(Debug, Clone)]
pub struct AllocatorReport {
    /// Rows, ours and others'.
    pub rows: Vec<Row>,
    /// One per experiment.
    pub findings: Vec<Finding>,
    pub(super) machine: Machine,
}

impl AllocatorReport {
    pub(super) fn new(machine: Machine) -> Self {
        Self {
            rows: Vec::new(),
            findings: Vec::new(),
            machine,
        }
    }

    /// Draws the findings from the rows.
    pub(super) fn find(&mut self, experiments: &[Experiment]) {
        self.findings = experiments
            .iter()
            .map(|experiment| Finding {
                experiment: *experiment,
                paper: experiment.paper(),
                ours: self.outcome(*experiment),
            })
            .collect();
    }

    /// Rows of an experiment.
    pub fn of(&self, experiment: Experiment) -> impl Iterator<Item = &Row> {
        self.rows
            .iter()
            .filter(move |row| row.experiment == experiment.name())
    }

    fn outcome(&self, experiment: Experiment) -> String {
        let ours: Vec<&Row> = self.of(experiment).filter(|row| row.ours).collect();
        let most = ours.iter().map(|row| row.threads).max().unwrap_or(0);
        let at_most = |row: &&&Row| row.threads == most;
        match experiment {
            Experiment::Theory => {
                let of = |name| ours.iter().filter(at_most).find(|row| row.allocator == name).and_then(|row| row.tas);
                match (of("RW"), of("queue")) {
                    (Some(walk), Some(queue)) => {
                        format!("{most} threads, half the pages free: TAS {walk:.1} of RW, {queue:.0} of a queue")
                    }
                    _ => String::new(),
                }
            }
            Experiment::Utilization => {
                let worst = |name: &str| {
                    let shares = ours.iter().filter(|row| row.allocator == name).filter_map(|row| row.share);
                    100.0 * shares.fold(f64::INFINITY, f64::min)
                };
                format!(
                    "at least {:.1} % with RW_malloc (units of 16 B), {:.1} % with pages of the request's size",
                    worst("RW_malloc"),
                    worst("window")
                )
            }
            Experiment::FreeShare => {
                let worst = ours
                    .iter()
                    .filter_map(|row| Some((row.tas? / row.expected_tas? - 1.0).abs()))
                    .fold(0.0, f64::max);
                let above = ours
                    .iter()
                    .filter(|row| row.was.zip(row.was_bound).is_some_and(|(was, bound)| was > bound))
                    .count();
                let refused: u64 = ours.iter().map(|row| row.threads - row.served).sum();
                format!(
                    "TAS differs from the equations by at most {:.0} %; WAS is above its bound in {above} of {} rows; {refused} \
                     requests were refused",
                    100.0 * worst,
                    ours.iter().filter(|row| row.was_bound.is_some()).count()
                ) + &Self::ratios(&ours, |row| row.pages == ours.iter().map(|row| row.pages).max().unwrap_or(0))
            }
            _ => format!("at {most} threads") + &Self::ratios(&ours, |row| row.threads == most),
        }
    }

    /// Median over some rows of each allocator's time relative to the default's, of the same case.
    fn ratios(ours: &[&Row], among: impl Fn(&Row) -> bool) -> String {
        let case = |row: &Row| (row.regime.clone(), row.size, row.threads, row.pages, row.share.map(f64::to_bits));
        let mut text = String::new();
        let mut names: Vec<&str> = ours.iter().map(|row| row.allocator.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names.into_iter().filter(|name| *name != "window") {
            let ratios = ours
                .iter()
                .filter(|row| row.allocator == name && among(row))
                .filter_map(|row| {
                    let same = |other: &&&Row| {
                        other.allocator == "window" && (case(other) == case(row) || row.regime == "floor" && other.threads == row.threads)
                    };
                    Some(row.allocate_ms? / ours.iter().find(same)?.allocate_ms?)
                });
            if let Some(summary) = Summary::of(ratios) {
                // Writing to a String does not fail.
                let _ = write!(
                    text,
                    "; {name} takes {:.2} times the default's time ({:.2} to {:.2})",
                    summary.median, summary.min, summary.max
                );
            }
        }
        text
    }

    /// The findings as a table in Markdown.
    pub fn summary(&self) -> String {
        let mut text = String::from("| figure | experiment | the paper | here |\n| ---: | --- | --- | --- |\n");
        for finding in &self.findings {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} |",
                finding.experiment.figure(),
                finding.experiment.name(),
                finding.paper,
                finding.ours
            );
        }
        text
    }

    /// Writes `<name>.csv`, `<name>.jsonl`, `<name>.md` and one SVG per figure below `root`; returns the directory.
    ///
    /// # Errors
    /// [`BenchError::Io`], [`BenchError::Plot`].
    pub fn write(&self, root: &Path, name: &str, command: &str) -> Result<PathBuf> {
        let csv = result::csv_of(self.rows.iter().map(Row::cells));
        let json: String = self
            .rows
            .iter()
            .map(|row| serde_json::to_string(row).expect("a row is plain data") + "\n")
            .collect();
        let directory = result::directory(root, &self.machine);
        std::fs::create_dir_all(&directory).map_err(BenchError::io("create", &directory))?;
        let mut section = format!("## {name}\n\n```\n{command}\n```\n\nCommit {}.\n\n", self.machine.commit);
        section += &self.summary();
        section.push('\n');
        for figure in plot::draw(self, &directory, name)? {
            let _ = writeln!(section, "![{figure}]({figure})");
        }
        result::write_files(root, name, &self.machine, &csv, &json, &section)
    }
}
