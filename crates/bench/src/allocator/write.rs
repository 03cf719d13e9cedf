//! The files of a report.

use std::path::{Path, PathBuf};

use super::plot;
use super::report::{AllocatorReport, Row};
use crate::Result;
use crate::harness::Files;

impl AllocatorReport {
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
