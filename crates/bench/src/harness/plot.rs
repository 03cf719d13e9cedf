//! Figures as SVG: lines of points, both axes logarithmic.

use std::collections::BTreeMap;
use std::path::Path;

use plotters::prelude::*;

use crate::{BenchError, Result};

const WIDTH: u32 = 960;
const HEIGHT: u32 = 560;

/// A figure: its name, its axes, and the points of each line.
#[derive(Debug)]
pub struct Figure {
    pub(crate) name: String,
    title: String,
    x: &'static str,
    y: &'static str,
    lines: BTreeMap<String, Vec<(f64, f64)>>,
}

/// Collects figures by name.
#[derive(Default)]
pub(crate) struct Figures(BTreeMap<String, Figure>);

impl Figures {
    /// Adds a point to a line of a figure. Logarithmic axes omit values that are not positive.
    pub(crate) fn point(
        &mut self,
        name: &str,
        title: &str,
        (x, y): (&'static str, &'static str),
        line: &str,
        (x_value, y_value): (f64, Option<f64>),
    ) {
        let Some(y_value) = y_value.filter(|y| *y > 0.0 && x_value > 0.0) else {
            return;
        };
        let figure = self.0.entry(name.to_string()).or_insert_with(|| Figure {
            name: name.to_string(),
            title: title.to_string(),
            x,
            y,
            lines: BTreeMap::new(),
        });
        let line = figure.lines.entry(line.to_string()).or_default();
        line.push((x_value, y_value));
    }

    /// The figures, by name.
    pub(crate) fn finish(self) -> Vec<Figure> {
        self.0.into_values().collect()
    }
}

impl Figure {
    /// Draws the figure into a file.
    pub(crate) fn draw(&self, path: &Path) -> Result<()> {
        let failed = |error: &dyn std::fmt::Display| BenchError::Plot {
            path: path.to_path_buf(),
            reason: error.to_string(),
        };
        let points = self.lines.values().flatten();
        let range = |value: fn(&(f64, f64)) -> f64| {
            let values = points.clone().map(value);
            let (least, most) = values.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), v| {
                (least.min(v), most.max(v))
            });
            // A range around a single value.
            (least * 0.8)..(most * 1.25)
        };
        let (x, y) = (range(|point| point.0), range(|point| point.1));
        let root = SVGBackend::new(path, (WIDTH, HEIGHT)).into_drawing_area();
        root.fill(&WHITE).map_err(|error| failed(&error))?;
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(70)
            .build_cartesian_2d(x.log_scale(), y.log_scale())
            .map_err(|error| failed(&error))?;
        chart
            .configure_mesh()
            .x_desc(self.x)
            .y_desc(self.y)
            .draw()
            .map_err(|error| failed(&error))?;
        for (index, (name, points)) in self.lines.iter().enumerate() {
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
}
