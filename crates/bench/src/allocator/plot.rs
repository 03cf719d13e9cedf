//! The figures, as SVG.

use std::collections::BTreeMap;
use std::path::Path;

use plotters::prelude::*;

use super::Experiment;
use super::report::{AllocatorReport, Row};
use crate::{BenchError, Result};

/// A picture: its name, its axes, and which rows are points of which line.
struct Figure {
    name: String,
    title: String,
    x: &'static str,
    y: &'static str,
    lines: BTreeMap<String, Vec<(f64, f64)>>,
}

const WIDTH: u32 = 960;
const HEIGHT: u32 = 560;

/// Draws every figure that has points; the names of the files.
pub(super) fn draw(report: &AllocatorReport, directory: &Path, name: &str) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for figure in figures(report) {
        let file = format!("{name}-{}.svg", figure.name);
        draw_one(&figure, &directory.join(&file))?;
        files.push(file);
    }
    Ok(files)
}

fn figures(report: &AllocatorReport) -> Vec<Figure> {
    let mut figures: BTreeMap<String, Figure> = BTreeMap::new();
    let mut point = |row: &Row,
                     name: String,
                     title: String,
                     (x, y): (&'static str, &'static str),
                     at: (f64, Option<f64>)| {
        let (x_value, Some(y_value)) = at else { return };
        if x_value <= 0.0 || y_value <= 0.0 {
            return;
        }
        let figure = figures.entry(name.clone()).or_insert_with(|| Figure {
            name,
            title,
            x,
            y,
            lines: BTreeMap::new(),
        });
        let line = if row.ours {
            row.allocator.clone()
        } else {
            format!("{} (not ours)", row.allocator)
        };
        figure.lines.entry(line).or_default().push((x_value, y_value));
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
                    "memory used when the pool is dry".into(),
                    ("bytes", "% of the pool"),
                    (size, share),
                );
            }
            None => {}
        }
    }
    figures.into_values().collect()
}

/// In which pictures a row is: floors in both.
fn regimes(row: &Row) -> Vec<&str> {
    if row.regime == "floor" {
        vec!["warm", "hold"]
    } else {
        vec![row.regime.as_str()]
    }
}

fn draw_one(figure: &Figure, path: &Path) -> Result<()> {
    let failed = |error: &dyn std::fmt::Display| BenchError::Plot {
        path: path.to_path_buf(),
        reason: error.to_string(),
    };
    let points = figure.lines.values().flatten();
    let range = |value: fn(&(f64, f64)) -> f64| {
        let values = points.clone().map(value);
        let (least, most) = values.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), v| {
            (least.min(v), most.max(v))
        });
        // A single value still has a picture.
        (least * 0.8)..(most * 1.25)
    };
    let (x, y) = (range(|point| point.0), range(|point| point.1));
    let root = SVGBackend::new(path, (WIDTH, HEIGHT)).into_drawing_area();
    root.fill(&WHITE).map_err(|error| failed(&error))?;
    let mut chart = ChartBuilder::on(&root)
        .caption(&figure.title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(x.log_scale(), y.log_scale())
        .map_err(|error| failed(&error))?;
    chart
        .configure_mesh()
        .x_desc(figure.x)
        .y_desc(figure.y)
        .draw()
        .map_err(|error| failed(&error))?;
    for (index, (name, points)) in figure.lines.iter().enumerate() {
        let mut points = points.clone();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let color = Palette99::pick(index).to_rgba();
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)).point_size(3))
            .map_err(|error| failed(&error))?
            .label(name.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()
        .map_err(|error| failed(&error))?;
    root.present().map_err(|error| failed(&error))
}
