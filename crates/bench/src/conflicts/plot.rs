//! The figures: assigns rows to the points of lines.

use super::layouts::BY_THREADS;
use super::report::{ConflictsReport, Row};
use super::way::Way;
use super::{Experiment, constants};
use crate::harness::plot::{Figure, Figures};

const COPIES: &str = "copies per value";
const RATE: &str = "G rows/s";

/// Every figure that has points.
pub(super) fn figures(report: &ConflictsReport) -> Vec<Figure> {
    let mut figures = Figures::default();
    for (name, experiment) in Experiment::NAMES {
        for row in report.of(experiment) {
            if experiment != Experiment::Alternatives || is_best_of_family(report, row) {
                point(&mut figures, name, experiment, row);
            }
        }
    }
    figures.finish()
}

/// Whether no method of the same family is faster for the same groups and skew.
fn is_best_of_family(report: &ConflictsReport, row: &Row) -> bool {
    let family = |row: &Row| row.way.map(Way::family);
    let faster = |other: &Row| (other.values, other.theta) == (row.values, row.theta) && other.ms < row.ms;
    !report
        .of(Experiment::Alternatives)
        .any(|other| faster(other) && family(other) == family(row))
}

fn point(figures: &mut Figures, name: &str, experiment: Experiment, row: &Row) {
    let (rows, theta) = (row.rows as f64, row.theta);
    let rate = row.rows_per_second.map(|rate| rate / 1e9);
    // Logarithmic axes have no 0, so one is added to windows and skews.
    let window = row.window.map_or(1.0, |window| window as f64 + 1.0);
    let query = row.query.replace(' ', "-").to_ascii_lowercase();
    let skew = format!("θ = {theta}");
    let mut draw =
        |name: String, title: &str, axes, line: &str, at| figures.point(&name, title, axes, line, at);
    match experiment {
        Experiment::Table1 => {
            let axes = ("θ + 1", "rounds");
            for (line, rounds) in [("reads", row.read_rounds), ("writes", row.write_rounds)] {
                draw(
                    name.to_string(),
                    "rounds of an access",
                    axes,
                    line,
                    (theta + 1.0, rounds),
                );
            }
        }
        Experiment::Figure3 => {
            let title = format!("copies, {skew}");
            draw(
                format!("{name}-{theta}"),
                &title,
                ("rows", COPIES),
                &row.layout,
                (rows, row.copies),
            );
        }
        Experiment::Figure4 => {
            let line = format!("{}, {skew}", row.layout);
            let values = row.values as f64;
            draw(
                name.to_string(),
                "copies by cardinality",
                ("values", COPIES),
                &line,
                (values, row.copies),
            );
        }
        Experiment::Figure5 => {
            let title = format!("{}, {skew}", row.query);
            let axes = ("rows", "times faster");
            draw(
                format!("{name}-{query}-{theta}"),
                &title,
                axes,
                &row.layout,
                (rows, row.speed_up),
            );
        }
        Experiment::Figure6 | Experiment::Figure7 => {
            if row.window.is_some() {
                draw(
                    format!("{name}-{query}"),
                    &row.query,
                    ("window + 1", RATE),
                    &skew,
                    (window, rate),
                );
            }
        }
        Experiment::Figure8 => {
            let at = (row.budget.unwrap_or(0.0), rate);
            draw(format!("{name}-{query}"), &row.query, ("budget", RATE), &skew, at);
        }
        Experiment::Figure9 => {
            if row.layout == BY_THREADS {
                let threads = row.cpu_threads.unwrap_or(0) as f64;
                let line = format!("{skew}, window {}", window - 1.0);
                let title = "layouts by threads";
                draw(
                    format!("{name}-threads"),
                    title,
                    ("threads", "seconds"),
                    &line,
                    (threads, row.layout_s),
                );
            } else if row.window.is_some() {
                draw(
                    name.to_string(),
                    "layouts",
                    ("window + 1", "seconds"),
                    &skew,
                    (window, row.layout_s),
                );
            }
        }
        Experiment::Figure10 => {
            if row.layout == "original" {
                let degree = row.degree.unwrap_or(0) as f64;
                draw(
                    name.to_string(),
                    "conflict degree",
                    ("rounds", RATE),
                    &row.query,
                    (degree, rate),
                );
            }
        }
        Experiment::Alternatives => {
            let title = format!("one 64-bit sum, {skew}");
            let values = row.values as f64;
            draw(
                format!("{name}-{theta}"),
                &title,
                ("groups", RATE),
                &row.layout,
                (values, rate),
            );
        }
        Experiment::Machine => {
            if let Some(what) = row.layout.strip_prefix(constants::UPDATES) {
                let degree = row.degree.unwrap_or(0) as f64;
                let rate = row.constant.map(|rate| rate / 1e9);
                draw(
                    name.to_string(),
                    "updates of shared memory",
                    ("conflicting lanes", "G accesses/s"),
                    what,
                    (degree, rate),
                );
            }
        }
    }
}
