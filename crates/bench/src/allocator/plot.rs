//! The figures: assigns rows to the points of lines.

use super::Experiment;
use super::report::{AllocatorReport, Row};
use crate::harness::plot::{Figure, Figures};

/// Every figure that has points.
pub(super) fn figures(report: &AllocatorReport) -> Vec<Figure> {
    let mut figures = Figures::default();
    let mut point = |row: &Row,
                     name: String,
                     title: String,
                     axes: (&'static str, &'static str),
                     at: (f64, Option<f64>)| {
        let others;
        let line = if row.ours {
            &row.allocator
        } else {
            others = format!("{} (not ours)", row.allocator);
            &others
        };
        figures.point(&name, &title, axes, line, at);
    };
    const TIME: (&str, &str) = ("threads", "milliseconds");
    for row in &report.rows {
        let (threads, size) = (row.threads as f64, row.size as f64);
        let figure = format!("fig{:02}", row.figure);
        match Experiment::NAMES.iter().find(|(name, _)| *name == row.experiment) {
            Some((_, Experiment::Contention | Experiment::HashJoin)) => {
                point(
                    row,
                    figure,
                    row.experiment.clone(),
                    TIME,
                    (threads, row.allocate_ms),
                );
            }
            Some((_, Experiment::Theory)) => {
                let share = 100.0 * row.free as f64 / row.pages as f64;
                let name = format!("{figure}-{share:.1}");
                point(
                    row,
                    format!("{name}-tas"),
                    format!("TAS, {share:.1} % free"),
                    ("threads", "steps"),
                    (threads, row.tas),
                );
                point(
                    row,
                    format!("{name}-was"),
                    format!("WAS, {share:.1} % free"),
                    ("threads", "steps"),
                    (threads, row.was),
                );
            }
            Some((_, Experiment::FreeShare)) => {
                let share = 100.0 * row.share.unwrap_or(0.0);
                let name = format!("{figure}-{}-{share}", row.pages);
                let title = |what: &str| format!("{what}, {share} % of {} pages free", row.pages);
                point(
                    row,
                    format!("{name}-time"),
                    title("allocation"),
                    TIME,
                    (threads, row.allocate_ms),
                );
                point(
                    row,
                    format!("{name}-tas"),
                    title("TAS"),
                    ("threads", "steps"),
                    (threads, row.tas),
                );
                point(
                    row,
                    format!("{name}-was"),
                    title("WAS"),
                    ("threads", "steps"),
                    (threads, row.was),
                );
            }
            Some((_, Experiment::Scaling | Experiment::Mixed)) => {
                for regime in regimes(row) {
                    let name = format!(
                        "{figure}-{}-{regime}",
                        if row.regime == "floor" { 256 } else { row.size }
                    );
                    let title = format!(
                        "{} B, {regime}",
                        if row.regime == "floor" { 256 } else { row.size }
                    );
                    point(row, name, title, TIME, (threads, row.allocate_ms));
                }
            }
            Some((_, Experiment::Sizes)) => {
                for regime in regimes(row) {
                    let name = format!("{figure}-{}-{regime}", row.threads);
                    let title = format!("{} threads, {regime}", row.threads);
                    point(
                        row,
                        name,
                        title,
                        ("bytes", "milliseconds"),
                        (size, row.allocate_ms),
                    );
                }
            }
            Some((_, Experiment::Utilization)) => {
                let share = row.share.map(|share| 100.0 * share);
                point(
                    row,
                    figure,
                    "memory used when the pool is exhausted".into(),
                    ("bytes", "% of the pool"),
                    (size, share),
                );
            }
            None => {}
        }
    }
    figures.finish()
}

/// The figures that contain a row; floors are in both.
fn regimes(row: &Row) -> Vec<&str> {
    if row.regime == "floor" {
        vec!["warm", "hold"]
    } else {
        vec![row.regime.as_str()]
    }
}
