//! Selections of rows, and formatted values.

use super::super::row::Row;
use crate::finding::{about, missing, verdict};

/// The algorithm of our join.
pub(super) const OURS: &str = "Refined Linear";

/// Rows of a figure.
pub(super) struct Rows<'a>(pub(super) Vec<&'a Row>);

impl<'a> Rows<'a> {
    pub(super) fn of(&self, experiment: &str, algorithm: &str) -> Rows<'a> {
        let rows = self.0.iter().copied();
        Rows(
            rows.filter(|row| row.experiment == experiment && row.algorithm == algorithm)
                .collect(),
        )
    }

    /// Rows of our join: the default of the experiments.
    pub(super) fn ours(&self, experiment: &str) -> Rows<'a> {
        self.of(experiment, OURS)
    }

    pub(super) fn by(&self, parameter: &str) -> Rows<'a> {
        let rows = self.0.iter().copied();
        Rows(rows.filter(|row| row.parameter == parameter).collect())
    }

    /// The row with a value of the parameter.
    pub(super) fn at(&self, value: f64) -> Option<&'a Row> {
        self.0
            .iter()
            .copied()
            .find(|row| (row.value - value).abs() < 1e-9)
    }

    /// The fastest row.
    pub(super) fn best(&self) -> Option<&'a Row> {
        let rows = self.0.iter().copied();
        rows.max_by(|a, b| a.rate().total_cmp(&b.rate()))
    }

    pub(super) fn worst(&self) -> Option<&'a Row> {
        let rows = self.0.iter().copied();
        rows.min_by(|a, b| a.rate().total_cmp(&b.rate()))
    }

    /// The workloads, each once.
    pub(super) fn workloads(&self) -> Vec<(usize, usize)> {
        let mut all: Vec<(usize, usize)> = self.0.iter().map(|row| row.workload).collect();
        all.dedup();
        all.sort_unstable();
        all.dedup();
        all
    }

    pub(super) fn with(&self, workload: (usize, usize)) -> Rows<'a> {
        let rows = self.0.iter().copied();
        Rows(rows.filter(|row| row.workload == workload).collect())
    }

    /// Rates of one experiment's algorithm divided by those of another for the same workload and value.
    pub(super) fn ratios(&self, others: &Rows<'_>) -> Vec<(f64, f64)> {
        let ratio = |row: &&Row| {
            let other = others
                .0
                .iter()
                .find(|other| other.workload == row.workload && (other.value - row.value).abs() < 1e-9)?;
            Some((row.value, row.rate() / other.rate()))
        };
        self.0.iter().filter_map(ratio).collect()
    }
}

/// Formats values with the points at which they were measured.
pub(super) fn text(values: &[(f64, f64)], unit: &str) -> String {
    let texts = values
        .iter()
        .map(|(at, value)| format!("{value:.2}{unit} at {at}"));
    texts.collect::<Vec<_>>().join(", ")
}

/// Adds the finding that all values are within a tenth of a published range.
pub(super) fn within(
    lines: &mut Vec<String>,
    (figure, thesis): (&str, &str),
    values: &[(f64, f64)],
    range: (f64, f64),
) {
    if values.is_empty() {
        lines.push(missing(figure, thesis, "one of the two"));
        return;
    }
    let holds = values.iter().all(|(_, value)| about(*value, range));
    lines.push(verdict(figure, thesis, &text(values, "x"), holds));
}

pub(super) fn rates(rows: &Rows<'_>) -> Vec<(f64, f64)> {
    rows.0.iter().map(|row| (row.value, row.rate())).collect()
}
