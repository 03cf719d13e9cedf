//! A row of an experiment.

use super::gpu::{Phases, Run};
use super::model::Predicted;
use crate::runs;

/// The limit of a join's rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// The limiting resource.
    pub by: &'static str,
    /// G tuples per second.
    pub rate: f64,
}

/// Measurements of a join.
#[derive(Debug, Clone)]
pub struct Row {
    /// The experiment.
    pub experiment: &'static str,
    /// The figure of the thesis.
    pub figure: &'static str,
    /// The algorithm and its processor.
    pub algorithm: String,
    /// The memory of the hash table; empty for the radix join.
    pub table: String,
    /// The workload.
    pub workload: &'static str,
    /// The varied parameter.
    pub parameter: &'static str,
    /// Its value.
    pub value: f64,
    /// Tuples of both relations.
    pub tuples: u64,
    /// Times of each run.
    pub runs: Vec<Phases>,
    /// Fraction of the probed rows that the device processed.
    pub device_share: f64,
    /// Fraction of the table in the device's memory.
    pub table_share: f64,
    /// The limit of the rate, if it is known.
    pub bound: Option<Bound>,
    /// Predictions for a table in both memories.
    pub predicted: Option<Predicted>,
}

impl Row {
    /// Names of the fields of [`Row::csv`].
    pub const HEADER: &'static str = "experiment,figure,algorithm,table,workload,parameter,value,tuples,g_tuples_s,least,greatest,spread,bound,bound_by,share_of_bound,build_s,copy_s,probe_s,device_share,table_share,predicted_mean,predicted_series,predicted_overlap,seconds,runs";

    /// Adds a run.
    pub(super) fn add(&mut self, run: &Run) {
        self.runs.push(run.phases);
        self.device_share = run.device_share;
    }

    /// G tuples per second of each run.
    fn rates(&self) -> Vec<f64> {
        let rates = self.runs.iter().map(|run| self.tuples as f64 / run.total() / 1e9);
        rates.collect()
    }

    /// The median of the runs, in G tuples per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        runs::median(&self.rates())
    }

    /// The median of a phase, in seconds.
    #[must_use]
    pub fn phase(&self, of: impl Fn(&Phases) -> f64) -> f64 {
        runs::median(&self.runs.iter().map(of).collect::<Vec<_>>())
    }

    /// The row as comma-separated values.
    #[must_use]
    pub fn csv(&self) -> String {
        let (rate, (least, greatest)) = (self.rate(), runs::range(&self.rates()));
        let bound = self.bound.map_or(f64::NAN, |bound| bound.rate);
        let by = self.bound.map_or("", |bound| bound.by);
        let number = |value: f64| match value.is_finite() {
            true => format!("{value:.6}"),
            false => String::new(),
        };
        let predicted = |of: fn(&Predicted) -> f64| number(self.predicted.as_ref().map_or(f64::NAN, of));
        let seconds: Vec<String> = self
            .runs
            .iter()
            .map(|run| format!("{:.6}", run.total()))
            .collect();
        let fields = [
            self.experiment.to_owned(),
            self.figure.to_owned(),
            self.algorithm.clone(),
            self.table.clone(),
            self.workload.replace(',', ""),
            self.parameter.to_owned(),
            format!("{}", self.value),
            self.tuples.to_string(),
            number(rate),
            number(least),
            number(greatest),
            number((greatest - least) / rate),
            number(bound),
            by.to_owned(),
            number(rate / bound),
            format!("{:.6}", self.phase(|phases| phases.build)),
            format!("{:.6}", self.phase(|phases| phases.copy)),
            format!("{:.6}", self.phase(|phases| phases.probe)),
            number(self.device_share),
            number(self.table_share),
            predicted(|predicted| predicted.mean),
            predicted(|predicted| predicted.series),
            predicted(|predicted| predicted.overlap),
            seconds.join(" "),
            self.runs.len().to_string(),
        ];
        fields.join(",")
    }
}
