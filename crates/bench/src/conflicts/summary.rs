//! What a report says beside the paper, and its files.

use std::path::{Path, PathBuf};

use super::report::{ConflictsReport, Finding, Row};
use super::{Experiment, outcome, plot};
use crate::Result;
use crate::harness::{Files, Findings};

impl ConflictsReport {
    /// Draws the findings from the rows.
    pub(super) fn find(&mut self, experiments: &[Experiment]) {
        self.findings = experiments
            .iter()
            .map(|experiment| Finding {
                experiment: *experiment,
                paper: experiment.paper(),
                ours: outcome::of(self, *experiment),
            })
            .collect();
    }

    /// The findings as a table in Markdown; and tables of the alternatives and of the model's constants,
    /// where there are any.
    pub fn summary(&self) -> String {
        let mut findings = Findings::new();
        for finding in &self.findings {
            let name = finding.experiment.name();
            let figure = name
                .rsplit('-')
                .next()
                .filter(|number| number.parse::<u32>().is_ok());
            findings.add(figure.unwrap_or(""), name, finding.paper, &finding.ours);
        }
        let failures = self
            .failures
            .iter()
            .map(|(experiment, error)| format!("\n{} failed: {error}\n", experiment.name()));
        findings.finish()
            + &failures.collect::<String>()
            + &outcome::winners(self)
            + &outcome::constants(self)
    }

    /// Writes `<name>.csv`, `<name>.jsonl`, `<name>.md` and one SVG per figure below `root`; returns the
    /// directory.
    ///
    /// # Errors
    /// [`BenchError::Io`](crate::BenchError::Io), [`BenchError::Plot`](crate::BenchError::Plot).
    pub fn write(&self, root: &Path, name: &str, command: &str) -> Result<PathBuf> {
        let files = Files {
            rows: &self.rows,
            cells: Row::cells,
            summary: self.summary(),
            figures: plot::figures(self),
        };
        files.write(root, name, command, &self.machine)
    }
}
