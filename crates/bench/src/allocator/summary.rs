//! The summary, figures and files of a report.

use super::plot;
use super::report::{AllocatorReport, Row};
use crate::harness::plot::Figure;
use crate::harness::{Cells, Finding, Report, table_of};
use crate::machine::Machine;

impl Report for AllocatorReport {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn cells(row: &Row) -> Cells {
        row.cells()
    }

    fn summary(&self) -> String {
        table_of(&self.findings)
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
