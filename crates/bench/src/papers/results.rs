//! Committed results of experiments: the verdicts in `findings.txt` files below `bench/results`.
//!
//! A file is a list of lines:
//!
//! ```text
//! paper allocator                                   the paper of the lines below; the thesis at the beginning
//! commit c52af7b68662                               the measured commit of the lines below
//! figure 8: number of threads (allocator scaling)   an experiment, as `galatea bench papers` prints it
//! rows allocator-scaling.csv                        the file of its rows, unless it has the name of the experiment
//! figure 8: ...; here ...: holds                    a finding
//! figure 8: ...: does not hold, because ...         a finding
//! ```
//!
//! Other lines are notes on the experiment above them.

use std::fs;
use std::path::{Path, PathBuf};

use super::entry::{Entry, Paper};
use super::registry::entries;
use crate::{BenchError, Result};

/// Whether a published result holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Holds,
    /// It does not, for this reason.
    Not(String),
}

/// A published result, the measured facts and the verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The published result, with the facts if it holds.
    pub claim: String,
    /// The verdict.
    pub verdict: Verdict,
}

impl Finding {
    /// A line with a verdict.
    pub fn parse(line: &str) -> Option<Self> {
        if let Some(claim) = line.strip_suffix(": holds") {
            let (claim, verdict) = (claim.to_string(), Verdict::Holds);
            return Some(Self { claim, verdict });
        }
        let (claim, because) = line.split_once(": does not hold, because ")?;
        Some(Self {
            claim: claim.to_string(),
            verdict: Verdict::Not(because.to_string()),
        })
    }
}

/// The result of an entry in one folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    /// The figure.
    pub entry: &'static Entry,
    /// The folder below `bench/results`, with slashes.
    pub folder: String,
    /// The measured commit.
    pub commit: String,
    /// The file of the rows in the folder, without a check that it exists.
    pub rows: String,
    /// The findings.
    pub findings: Vec<Finding>,
    /// Other lines, such as points that were not measured.
    pub notes: Vec<String>,
}

impl Measured {
    /// The date, from the name of the folder.
    pub fn date(&self) -> &str {
        self.folder.get(..10).unwrap_or_default()
    }

    /// The machine, from the name of the folder.
    pub fn machine(&self) -> &str {
        let first = self.folder.split('/').next().unwrap_or_default();
        first.get(11..).unwrap_or_default()
    }
}

/// All committed results, by folder.
#[derive(Debug, Clone, Default)]
pub struct Results {
    /// The results, older folders first.
    pub all: Vec<Measured>,
    /// Lines of files that belong to no figure, each with its file.
    pub unassigned: Vec<String>,
}

impl Results {
    /// Reads all `findings.txt` files below `bench/results`.
    ///
    /// # Errors
    /// A folder or a file that cannot be read.
    pub fn read(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        find(root, &mut files)?;
        files.sort();
        let mut results = Self::default();
        for file in files {
            let text = fs::read_to_string(&file).map_err(BenchError::io("read", &file))?;
            let folder = file.parent().and_then(|folder| folder.strip_prefix(root).ok());
            let folder = folder.map(|folder| folder.to_string_lossy().replace('\\', "/"));
            results.add(&folder.unwrap_or_default(), &text);
        }
        Ok(results)
    }

    /// Adds the lines of a file.
    pub fn add(&mut self, folder: &str, text: &str) {
        let (mut paper, mut commit) = (Paper::Thesis, String::new());
        let mut current: Option<Measured> = None;
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            if let Some(name) = line.strip_prefix("paper ") {
                let named = Paper::ALL.into_iter().find(|paper| paper.name() == name);
                paper = named.unwrap_or(paper);
            } else if let Some(measured) = line.strip_prefix("commit ") {
                commit = measured.to_string();
            } else if let Some(entry) = headed(paper, line) {
                self.all.extend(current.take());
                current = Some(Measured {
                    entry,
                    folder: folder.to_string(),
                    commit: commit.clone(),
                    rows: entry.file() + ".csv",
                    findings: Vec::new(),
                    notes: Vec::new(),
                });
            } else if let Some(measured) = &mut current {
                if let Some(rows) = line.strip_prefix("rows ") {
                    measured.rows = rows.to_string();
                } else if let Some(finding) = Finding::parse(line) {
                    measured.findings.push(finding);
                } else {
                    measured.notes.push(line.to_string());
                }
            } else {
                self.unassigned.push(format!("{folder}: {line}"));
            }
        }
        self.all.extend(current);
    }

    /// The newest result of a figure.
    pub fn of(&self, entry: &Entry) -> Option<&Measured> {
        self.all.iter().rev().find(|measured| measured.entry == entry)
    }
}

/// The entry with this heading.
fn headed(paper: Paper, line: &str) -> Option<&'static Entry> {
    entries(paper).find(|entry| line == entry.heading())
}

/// All files of findings below a folder.
fn find(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(BenchError::io("read", folder))? {
        let path = entry.map_err(BenchError::io("read", folder))?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else if path.file_name().is_some_and(|name| name == "findings.txt") {
            files.push(path);
        }
    }
    Ok(())
}
