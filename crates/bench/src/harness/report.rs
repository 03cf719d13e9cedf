//! Findings beside a paper's, and how rows become files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::plot::Figure;
use crate::machine::Machine;
use crate::{BenchError, Result, result};

/// Findings as a table in Markdown.
pub(crate) struct Findings(String);

impl Findings {
    pub(crate) fn new() -> Self {
        Self("| figure | experiment | the paper | here |\n| --- | --- | --- | --- |\n".to_string())
    }

    pub(crate) fn add(&mut self, figure: &str, experiment: &str, paper: &str, ours: &str) {
        // Writing to a String does not fail.
        let _ = writeln!(self.0, "| {figure} | {experiment} | {paper} | {ours} |");
    }

    pub(crate) fn finish(self) -> String {
        self.0
    }
}

/// What a report writes: rows as named cells and as JSON, its summary in Markdown, its pictures.
pub(crate) struct Files<'a, R> {
    /// The rows.
    pub(crate) rows: &'a [R],
    /// Cells of a row.
    pub(crate) cells: fn(&R) -> Vec<(&'static str, String)>,
    /// What is said of them.
    pub(crate) summary: String,
    /// What is drawn of them.
    pub(crate) figures: Vec<Figure>,
}

impl<R: Serialize> Files<'_, R> {
    /// Writes `<name>.csv`, `<name>.jsonl`, `<name>.md` and one SVG per figure below `root`; returns the
    /// directory.
    pub(crate) fn write(self, root: &Path, name: &str, command: &str, machine: &Machine) -> Result<PathBuf> {
        let csv = result::csv_of(self.rows.iter().map(self.cells));
        let line = |row: &R| serde_json::to_string(row).expect("a row is plain data") + "\n";
        let json: String = self.rows.iter().map(line).collect();
        let directory = result::directory(root, machine);
        std::fs::create_dir_all(&directory).map_err(BenchError::io("create", &directory))?;
        let mut section = format!(
            "## {name}\n\n```\n{command}\n```\n\nCommit {}.\n\n{}\n",
            machine.commit, self.summary
        );
        for figure in self.figures {
            let file = format!("{name}-{}.svg", figure.name);
            figure.draw(&directory.join(&file))?;
            let _ = writeln!(section, "![{file}]({file})");
        }
        result::write_files(root, name, machine, &csv, &json, &section)
    }
}
