//! The summary of a report beside the paper.

use super::report::{ConflictsReport, Row};
use super::{Experiment, outcome, plot};
use crate::harness::plot::Figure;
use crate::harness::{Cells, Finding, Report, table_of};
use crate::machine::Machine;

impl ConflictsReport {
    /// Derives the findings from the rows.
    pub(super) fn find(&mut self, experiments: &[Experiment]) {
        self.findings = experiments
            .iter()
            .map(|experiment| {
                let (name, ours) = (experiment.name(), outcome::of(self, *experiment));
                Finding::new(figure(name), name, experiment.paper(), ours)
            })
            .collect();
    }
}

/// The number at the end of an experiment's name, which is the paper's; empty if it has none.
fn figure(name: &str) -> &str {
    let number = name.rsplit('-').next().unwrap_or_default();
    if number.parse::<u32>().is_ok() { number } else { "" }
}

impl Report for ConflictsReport {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn cells(row: &Row) -> Cells {
        row.cells()
    }

    /// The findings, and tables of the alternatives and of the model's constants, if any.
    fn summary(&self) -> String {
        let failures = self
            .failures
            .iter()
            .map(|(experiment, error)| format!("\n{} failed: {error}\n", experiment.name()));
        table_of(&self.findings)
            + &failures.collect::<String>()
            + &outcome::winners(self)
            + &outcome::constants(self)
    }

    fn figures(&self) -> Vec<Figure> {
        plot::figures(self)
    }

    fn findings(&self) -> Vec<Finding> {
        self.verdicts.clone()
    }

    fn machine(&self) -> &Machine {
        &self.machine
    }
}
