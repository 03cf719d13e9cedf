//! The summary of a report.

use std::fmt::Write as _;

use super::findings;
use super::report::{KmeansReport, Row};
use crate::harness::{Cells, Report};
use crate::machine::Machine;

impl Report for KmeansReport {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn cells(row: &Row) -> Cells {
        row.cells()
    }

    fn summary(&self) -> String {
        let mut text = String::from(
            "| execution | place | part | d | k | scores | sums | points/thread | ahead | threads | blocks | copies | shared KB | registers | spilled | ms | min | predicted | / floor | labels off | centroids off | right |\n\
             | --- | --- | --- | ---: | ---: | --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n",
        );
        for row in &self.rows {
            // Writing to a String does not fail.
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.1} | {} | {} | {:.4} | {:.4} | {:.4} | {} | {:.1e} | {:.1e} | {} |",
                row.execution,
                row.place,
                row.part,
                row.features,
                row.clusters,
                row.scores,
                row.sums,
                row.points_per_thread,
                if row.ahead { "yes" } else { "no" },
                row.threads,
                row.blocks,
                row.copies,
                row.shared_bytes as f64 / 1024.0,
                row.registers,
                row.spilled_bytes,
                row.ms_median,
                row.ms_min,
                row.predicted_ms,
                row.ratio
                    .map_or_else(|| "-".to_string(), |ratio| format!("{ratio:.2}")),
                row.label_mismatch,
                row.centroid_error,
                if row.right { "yes" } else { "NO" },
            );
        }
        if self.rows.iter().any(|row| row.experiment != "iteration") {
            let _ = write!(text, "\n{}", findings::findings(&self.rows));
        }
        text
    }

    fn machine(&self) -> &Machine {
        &self.machine
    }
}
