//! Rows of one experiment, and phrases of findings.

use super::super::row::Row;
use crate::finding;
pub(super) use crate::finding::{about, loss};

/// A published result with its facts, or the line for points that are missing.
pub(super) fn found(figure: &str, thesis: &str, facts: Option<(String, bool)>) -> String {
    finding::found(figure, thesis, facts, "one of its points")
}

/// The rate with the greatest exponent of the Zipf distribution, compared with the least one, and whether it
/// is about as many times as great as in the thesis.
pub(super) fn gain_by_skew<'a>(
    rows: &Rows<'a>,
    (algorithm, table): (&'a str, &'a str),
    thesis: (f64, f64),
) -> Option<(String, bool)> {
    let (first, last) = rows.ends(algorithm, table)?;
    let by = last.rate() / first.rate();
    let facts = format!(
        "{:.2} G tuples/s become {:.2} with exponent {}, {by:.2} times",
        first.rate(),
        last.rate(),
        last.value
    );
    Some((facts, about(by, thesis)))
}

pub(super) const GPU: &str = "GPU perfect";
pub(super) const LINEAR: &str = "GPU linear probing";
pub(super) const CPU: &str = "CPU perfect";
pub(super) const RADIX: &str = "CPU radix";
/// The join with relations on the device, and in the memory of another device.
pub(super) const ON_DEVICE: &str = "GPU perfect (columns on the device)";
pub(super) const BY_CHUNK: &str = "GPU perfect (columns copied by chunk)";
pub(super) const PEER_BY_CHUNK: &str = "GPU perfect (columns copied by chunk from the other device)";
pub(super) const ON_PEER: &str = "GPU perfect (columns on the other device)";

/// Rows of one experiment.
pub(super) struct Rows<'a>(pub(super) Vec<&'a Row>);

impl<'a> Rows<'a> {
    pub(super) fn of(
        &self,
        algorithm: &'a str,
        table: &'a str,
    ) -> impl Iterator<Item = &'a Row> + use<'_, 'a> {
        let chosen =
            move |row: &&&'a Row| row.algorithm == algorithm && (table.is_empty() || row.table == table);
        self.0.iter().filter(chosen).copied()
    }

    /// The rate for a workload and a value.
    pub(super) fn of_workload(&self, algorithm: &'a str, workload: &str, value: f64) -> Option<f64> {
        let mut rows = self.of(algorithm, "").filter(|row| row.workload == workload);
        rows.find(|row| row.value == value).map(Row::rate)
    }

    pub(super) fn at(&self, algorithm: &'a str, table: &'a str, value: f64) -> Option<f64> {
        let mut rows = self.of(algorithm, table);
        rows.find(|row| row.value == value).map(Row::rate)
    }

    /// The rows with the least and the greatest value of the parameter.
    pub(super) fn ends(&self, algorithm: &'a str, table: &'a str) -> Option<(&'a Row, &'a Row)> {
        let by_value = |a: &&Row, b: &&Row| a.value.total_cmp(&b.value);
        let first = self.of(algorithm, table).min_by(by_value)?;
        let last = self.of(algorithm, table).max_by(by_value)?;
        Some((first, last))
    }

    /// The least and the greatest ratio of two algorithms' rates at the same values.
    pub(super) fn ratios(
        &self,
        (algorithm, table): (&'a str, &'a str),
        than: (&'a str, &'a str),
        chosen: impl Fn(f64) -> bool,
    ) -> Option<(f64, f64)> {
        let rows = self.of(algorithm, table).filter(|row| chosen(row.value));
        let ratios = rows.filter_map(|row| Some(row.rate() / self.at(than.0, than.1, row.value)?));
        let (least, greatest) = crate::runs::range(&ratios.collect::<Vec<_>>());
        (least <= greatest).then_some((least, greatest))
    }
}

/// The facts on a range of ratios, and whether both ends are within the thesis' range.
pub(super) fn times(what: &str, ratios: Option<(f64, f64)>, thesis: (f64, f64)) -> Option<(String, bool)> {
    let (least, greatest) = ratios?;
    let facts = format!("{what} {least:.2} to {greatest:.2} times");
    Some((facts, about(least, thesis) && about(greatest, thesis)))
}
