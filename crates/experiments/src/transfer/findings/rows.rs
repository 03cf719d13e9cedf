//! Rows of one experiment, and phrases of findings.

use galatea_memory::transfer::Method;

use super::super::experiments::Measured;
use super::super::measure::Source;
pub(super) use crate::finding::{about, found, loss};

/// Formats a loss, followed by the word for less or for more.
pub(super) fn percent(loss: f64, less: &str, more: &str) -> String {
    let word = if loss < 0.0 { more } else { less };
    format!("{:.0} % {word}", loss.abs())
}

/// Whether a loss is within ten points of that in the thesis.
pub(super) fn loses(loss: f64, thesis: f64) -> bool {
    (loss - thesis).abs() <= 10.0
}

/// Rows of one experiment.
pub(super) struct Rows<'a>(pub(super) Vec<&'a Measured>);

impl Rows<'_> {
    /// The median of the first chosen row.
    pub(super) fn median(&self, chosen: impl Fn(&Measured) -> bool) -> Option<f64> {
        self.0.iter().find(|row| chosen(row)).map(|row| row.median())
    }

    pub(super) fn of(&self, source: Source) -> Option<f64> {
        self.median(|row| row.rate.source == source)
    }

    /// The best of the chosen transfer methods, in GB/s.
    pub(super) fn best(&self, chosen: impl Fn(Method) -> bool) -> Option<(Method, f64)> {
        let of_way = |row: &&Measured| match row.rate.source {
            Source::Way(method) if row.unit == "GB/s" && chosen(method) => Some((method, row.median())),
            _ => None,
        };
        let ways = self.0.iter().filter_map(of_way);
        ways.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

pub(super) const ZERO_COPY: Source = Source::Way(Method::ZeroCopy);
