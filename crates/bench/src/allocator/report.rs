//! The rows of a report, and the findings that compare them with the paper.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::Experiment;
use crate::harness::{Cells, Finding};
use crate::machine::Machine;
use crate::result::{Summary, real};

/// One configuration of one experiment: medians over its runs, in milliseconds of device time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The experiment's name.
    pub experiment: String,
    /// The paper's figure.
    pub figure: u32,
    /// Page search, floor, or another allocator.
    pub allocator: String,
    /// Whether it was measured in this run, not taken from the table of others.
    pub ours: bool,
    /// `warm`, `hold`, `share`, `floor`, `theory`.
    pub regime: String,
    /// Bytes of a request; the largest of mixed ones.
    pub size: u64,
    /// Number of threads, with one request each.
    pub threads: u64,
    /// Number of pages of the pool.
    pub pages: u64,
    /// Bytes of a page; for RW_malloc, of a unit. Rows before 2026-11-22 have none.
    #[serde(default)]
    pub page_bytes: u64,
    /// Number of free pages before the run.
    pub free: u64,
    /// Share of free pages; in the utilization experiment, the allocated share of the pool.
    pub share: Option<f64>,
    /// Number of runs.
    pub runs: u64,
    /// Median time of allocation (of the whole join in the case study).
    pub allocate_ms: Option<f64>,
    /// Fastest.
    pub allocate_min_ms: Option<f64>,
    /// Slowest.
    pub allocate_max_ms: Option<f64>,
    /// Median time of freeing.
    pub release_ms: Option<f64>,
    /// Number of requests served in the last run.
    pub served: u64,
    /// Number of steps of a thread.
    pub tas: Option<f64>,
    /// Number of steps of a warp's slowest lane.
    pub was: Option<f64>,
    /// TAS by Equation 2 or 4.
    pub expected_tas: Option<f64>,
    /// Bound of WAS by Equation 3 or 5.
    pub was_bound: Option<f64>,
    /// The machine of the measurement.
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
            page_bytes: 0,
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

    pub(super) fn cells(&self) -> Cells {
        vec![
            ("experiment", self.experiment.clone()),
            ("figure", self.figure.to_string()),
            ("allocator", self.allocator.clone()),
            ("ours", self.ours.to_string()),
            ("regime", self.regime.clone()),
            ("size", self.size.to_string()),
            ("threads", self.threads.to_string()),
            ("pages", self.pages.to_string()),
            ("page_bytes", self.page_bytes.to_string()),
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
        ]
    }
}

/// All measurements.
#[derive(Debug, Clone)]
pub struct AllocatorReport {
    /// Rows, ours and those of others.
    pub rows: Vec<Row>,
    /// One finding per experiment.
    pub findings: Vec<Finding>,
    /// Findings with verdicts.
    pub(super) verdicts: Vec<Finding>,
    pub(super) machine: Machine,
}

impl AllocatorReport {
    pub(super) fn new(machine: Machine) -> Self {
        Self {
            rows: Vec::new(),
            findings: Vec::new(),
            verdicts: Vec::new(),
            machine,
        }
    }

    /// Derives the findings from the rows.
    pub(super) fn find(&mut self, experiments: &[Experiment]) {
        self.findings = experiments
            .iter()
            .map(|experiment| {
                let figure = experiment.figure().to_string();
                let ours = self.outcome(*experiment);
                Finding::new(&figure, experiment.name(), experiment.paper(), ours)
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
        let rows: Vec<&Row> = self.of(experiment).collect();
        let ours = || rows.iter().copied().filter(|row| row.ours);
        let most = ours().map(|row| row.threads).max().unwrap_or(0);
        let least = ours().map(|row| row.threads).min().unwrap_or(0);
        let at = |name: &str, threads| ours().find(|row| row.allocator == name && row.threads == threads);
        match experiment {
            Experiment::Contention => {
                let time = |threads| at("one word, every thread", threads).and_then(|row| row.allocate_ms);
                let (few, many) = (time(least).unwrap_or(f64::NAN), time(most).unwrap_or(f64::NAN));
                format!(
                    "every thread exchanges with one word: {few:.4} ms for {least} threads, {many:.4} ms for {most}"
                )
            }
            Experiment::Theory => {
                let steps = |name| at(name, most).and_then(|row| row.tas).unwrap_or(f64::NAN);
                let (walk, queue) = (steps("RW"), steps("queue"));
                format!("{most} threads, half the pages free: TAS {walk:.1} of RW, {queue:.0} of a queue")
            }
            Experiment::Utilization => {
                let worst = |name: &str, used: fn(&Row) -> Option<f64>| {
                    let shares = ours().filter(|row| row.allocator == name).filter_map(used);
                    100.0 * shares.fold(f64::INFINITY, f64::min)
                };
                // The number of requested pages, and of pages allocated for them.
                let pages = |row: &Row| {
                    Some((row.served * row.size.div_ceil(row.page_bytes)) as f64 / row.pages as f64)
                };
                format!(
                    "at least {:.1} % of the pages with RW_malloc ({:.1} % of the bytes, counting requests without rounding to \
                     units of 16 B), {:.1} % with pages of the request's size",
                    worst("RW_malloc", pages),
                    worst("RW_malloc", |row| row.share),
                    worst("window", pages)
                )
            }
            Experiment::FreeShare => {
                let off = |row: &Row| Some((row.tas? / row.expected_tas? - 1.0).abs());
                let worst = ours().filter_map(off).fold(0.0, f64::max);
                let bounded = ours().filter_map(|row| row.was.zip(row.was_bound));
                let above = bounded.clone().filter(|(was, bound)| was > bound).count();
                let refused: u64 = ours().map(|row| row.threads - row.served).sum();
                format!(
                    "TAS differs from the equations by at most {:.0} %; WAS is above its bound in {above} of {} rows; {refused} \
                     requests were refused",
                    100.0 * worst,
                    bounded.count()
                ) + &Self::ratios(&rows, |_| true)
            }
            Experiment::Scaling | Experiment::Sizes | Experiment::Mixed | Experiment::HashJoin => {
                format!("at {most} threads") + &Self::ratios(&rows, |row| row.threads == most)
            }
        }
    }

    /// For each allocator, the median of its time relative to the default's, over the cases of both.
    fn ratios(rows: &[&Row], among: impl Fn(&Row) -> bool) -> String {
        // The number of pages identifies a case if the share of free pages does. In other experiments it
        // follows from the search's page size.
        let case = |row: &Row| {
            let pool = row.share.map(|share| (share.to_bits(), row.pages));
            (row.size, row.threads, pool)
        };
        let default_for = |row: &Row| {
            let matches = |other: &&&Row| {
                let floor = row.regime == "floor" && other.threads == row.threads;
                other.allocator == "window"
                    && (floor || other.regime == row.regime && case(other) == case(row))
            };
            rows.iter().find(matches)?.allocate_ms
        };
        let mut names: Vec<(bool, &str)> = rows
            .iter()
            .map(|row| (!row.ours, row.allocator.as_str()))
            .collect();
        names.sort_unstable();
        names.dedup();
        let mut text = String::new();
        for (other, name) in names.into_iter().filter(|(_, name)| *name != "window") {
            let cases = rows.iter().filter(|row| row.allocator == name && among(row));
            let ratios = cases.filter_map(|row| Some(row.allocate_ms? / default_for(row)?));
            if let Some(summary) = Summary::of(ratios) {
                let whose = if other { " (not ours)" } else { "" };
                // Writing to a String does not fail.
                let _ = write!(
                    text,
                    "; {name}{whose} takes {:.2} times the default's time ({:.2} to {:.2})",
                    summary.median, summary.min, summary.max
                );
            }
        }
        text
    }
}
