//! The summary of a report.

use super::findings;
use super::report::{KmeansReport, Row};
use crate::harness::{Cells, Finding, Report, table_of};
use crate::machine::Machine;
use crate::markdown::Table;

impl Report for KmeansReport {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn cells(row: &Row) -> Cells {
        row.cells()
    }

    fn summary(&self) -> String {
        let mut text = Table::of(&self.rows)
            .words("execution", |row| &row.execution)
            .words("place", |row| &row.place)
            .words("part", |row| &row.part)
            .numbers("d", |row| row.features)
            .numbers("k", |row| row.clusters)
            .words("scores", |row| &row.scores)
            .words("sums", |row| &row.sums)
            .numbers("points/thread", |row| row.points_per_thread)
            .words("ahead", |row| if row.ahead { "yes" } else { "no" })
            .numbers("threads", |row| row.threads)
            .numbers("blocks", |row| row.blocks)
            .numbers("copies", |row| row.copies)
            .reals("shared KB", 1, |row| row.shared_bytes as f64 / 1024.0)
            .numbers("registers", |row| row.registers)
            .numbers("spilled", |row| row.spilled_bytes)
            .reals("ms", 4, |row| row.ms_median)
            .reals("min", 4, |row| row.ms_min)
            .reals("predicted", 4, |row| row.predicted_ms)
            .reals("/ floor", 2, |row| row.ratio)
            .numbers("labels off", |row| format!("{:.1e}", row.label_mismatch))
            .numbers("centroids off", |row| format!("{:.1e}", row.centroid_error))
            .words("right", |row| if row.right { "yes" } else { "NO" })
            .to_string();
        if self.rows.iter().any(|row| row.experiment != "iteration") {
            text = text + "\n" + &table_of(&findings::findings(&self.rows));
        }
        text
    }

    fn findings(&self) -> Vec<Finding> {
        findings::findings(&self.rows)
    }

    fn machine(&self) -> &Machine {
        &self.machine
    }
}
