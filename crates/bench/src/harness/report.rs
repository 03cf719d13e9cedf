//! Reports of experiments: rows, findings beside those of a paper, and their files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::plot::Figure;
use crate::machine::Machine;
use crate::markdown::Table;
use crate::{BenchError, Result, result};

/// Names and values of a row's columns, in the order of the CSV file.
pub type Cells = Vec<(&'static str, String)>;

/// The results of an experiment.
pub trait Report {
    /// One configuration, or one run.
    type Row: Serialize;

    /// The rows, in the order of the files.
    fn rows(&self) -> &[Self::Row];

    /// The columns of a row in the CSV file. Those of the machine follow them.
    fn cells(row: &Self::Row) -> Cells;

    /// Tables in Markdown.
    fn summary(&self) -> String;

    /// Figures of the rows, by name.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// The machine of the measurement.
    fn machine(&self) -> &Machine;

    /// Findings beside the results of a paper.
    fn findings(&self) -> Vec<Finding> {
        Vec::new()
    }

    /// The rows as CSV, with the columns of the machine.
    fn csv(&self) -> String {
        let machine = self.machine();
        let cells = |row| [Self::cells(row), machine.cells().into()].concat();
        result::csv_of(self.rows().iter().map(cells))
    }

    /// Writes `<name>.csv`, `<name>.jsonl`, `<name>.md` with `command` and the summary, and one SVG per
    /// figure below `root`. Returns the directory.
    ///
    /// # Errors
    /// [`BenchError::Io`], [`BenchError::Plot`].
    fn write(&self, root: &Path, name: &str, command: &str) -> Result<PathBuf> {
        let machine = self.machine();
        let csv = self.csv();
        let json = result::json_lines(self.rows());
        let directory = result::directory(root, machine);
        std::fs::create_dir_all(&directory).map_err(BenchError::io("create", &directory))?;
        let mut section = result::section(name, command, machine, &self.summary());
        for figure in self.figures() {
            let file = format!("{name}-{}.svg", figure.name);
            figure.draw(&directory.join(&file))?;
            // Writing to a String does not fail.
            let _ = writeln!(section, "![{file}]({file})");
        }
        result::write_files(root, name, machine, &csv, &json, &section)
    }
}

/// A paper's result beside ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The paper's figure; empty if it has none.
    pub figure: String,
    /// The experiment.
    pub experiment: String,
    /// The paper's result.
    pub paper: &'static str,
    /// The result here.
    pub ours: String,
}

impl Finding {
    pub(crate) fn new(figure: &str, experiment: &str, paper: &'static str, ours: String) -> Self {
        Self {
            figure: figure.to_string(),
            experiment: experiment.to_string(),
            paper,
            ours,
        }
    }

    /// The line of `findings.txt` below the heading of a figure with this title. Without a verdict, the line
    /// has none of the endings of one.
    pub fn line(&self, title: &str) -> String {
        let Self {
            experiment,
            paper,
            ours,
            ..
        } = self;
        let claim = match experiment.contains(' ') {
            true => format!("{title}: {experiment}: {paper}"),
            false => format!("{title}: {paper}"),
        };
        match ours.strip_prefix("holds") {
            Some("") => format!("{claim}: holds"),
            Some(facts) => format!("{claim}; here {}: holds", facts.trim_start_matches(": ")),
            None if ours.starts_with("does not hold") => format!("{claim}: {ours}"),
            None => format!("{claim}; here {ours}"),
        }
    }
}

/// Findings as a table in Markdown.
pub(crate) fn table_of(findings: &[Finding]) -> String {
    let table = Table::of(findings)
        .words("figure", |finding| &finding.figure)
        .words("experiment", |finding| &finding.experiment)
        .words("the paper", |finding| finding.paper)
        .words("here", |finding| &finding.ours);
    table.to_string()
}
