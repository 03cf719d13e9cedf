//! The file `findings.txt` of a run: the findings of each figure, in the form of committed results.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use galatea_bench::papers::{Entry, Paper, Results};

use super::super::bench::machine;
use crate::arguments::PapersArguments;
use crate::errors::CliError;

/// The file and its contents.
pub(super) struct Findings {
    path: Option<PathBuf>,
    commit: String,
    /// Results of earlier runs.
    results: Results,
    /// The paper of the last line that was added.
    paper: Option<Paper>,
}

impl Findings {
    /// The file in the folder of the arguments, empty unless the run continues an earlier one.
    pub(super) fn open(arguments: &PapersArguments) -> Result<Self, CliError> {
        let rows = &arguments.rows;
        let mut findings = Self {
            path: rows.out.as_ref().map(|out| out.join("findings.txt")),
            commit: machine(rows.emulated, rows.commit.clone()).commit,
            results: Results::default(),
            paper: None,
        };
        if let (Some(out), Some(path)) = (&rows.out, &findings.path) {
            fs::create_dir_all(out).map_err(|cause| failed(out.clone(), cause))?;
            match arguments.resume && path.exists() {
                true => {
                    let text = fs::read_to_string(path).map_err(|cause| failed(path.clone(), cause))?;
                    findings.results.add("", &text);
                }
                false => fs::write(path, "").map_err(|cause| failed(path.clone(), cause))?,
            }
        }
        Ok(findings)
    }

    /// Whether an earlier run measured a figure at this commit.
    pub(super) fn contains(&self, entry: &Entry) -> bool {
        let found = self.results.of(entry);
        found.is_some_and(|measured| measured.commit == self.commit)
    }

    /// Adds the findings of a figure.
    pub(super) fn add(&mut self, entry: &Entry, lines: &[String]) -> Result<(), CliError> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut text = String::new();
        if self.paper != Some(entry.paper) {
            text += &format!("paper {}\ncommit {}\n", entry.paper.name(), self.commit);
            self.paper = Some(entry.paper);
        }
        text += &format!("{}\n", entry.heading());
        for line in lines {
            text += &format!("{line}\n");
        }
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|cause| failed(path.clone(), cause))
    }
}

fn failed(path: PathBuf, cause: std::io::Error) -> CliError {
    CliError::File { path, cause }
}
