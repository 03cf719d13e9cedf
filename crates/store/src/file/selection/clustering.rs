//! Whether the values of a column are clustered by row group.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};

use super::bounds::GroupStatistics;
use super::candidates::Candidates;
use super::places::FilePlaces;
use crate::damage::contained;
use crate::error::Result;
use crate::file::column_reader::Int96;
use crate::file::files::TableFiles;
use crate::version::RowGroups;

/// Minimum number of row groups. Fewer have few bytes to leave out.
const MIN_GROUPS: usize = 4;

/// A column is clustered if its row groups span, on average, at most this part of all its values.
const PART: f64 = 0.25;

/// Whether a range of the values of a column of integers or dates selects few row groups, by their
/// statistics.
///
/// # Errors
/// The schema of a file cannot be read.
pub(in crate::file) fn is_clustered(
    files: &TableFiles,
    row_groups: &Arc<RowGroups>,
    column: usize,
    int96: Option<&Int96>,
) -> Result<bool> {
    let data_type = files.schema.field(column).data_type();
    if !(data_type.is_integer() || *data_type == DataType::Date32) {
        return Ok(false);
    }
    let places = FilePlaces::new(files, row_groups, int96)?;
    let candidates = Candidates {
        row_groups: Arc::clone(row_groups),
        groups: row_groups.all().filter(|(_, _, rows)| *rows > 0).collect(),
        schema: Arc::clone(&files.schema),
        predicates: Vec::new(),
        columns: vec![(column, places.of(column))],
    };
    // The statistics of damaged files may have any content.
    let ranges = contained(|| ranges(&candidates, column)).unwrap_or_default();
    Ok(are_narrow(&ranges))
}

/// The least and the greatest value of a column in each row group; `None` where they are unknown.
fn ranges(candidates: &Candidates, column: usize) -> Vec<Option<(i64, i64)>> {
    let statistics = GroupStatistics::of(candidates);
    let Some(bounds) = statistics.bounds(column) else {
        return vec![None; candidates.groups.len()];
    };
    let (lower, upper) = (integers(&bounds.lower), integers(&bounds.upper));
    let range = |(lower, upper): (Option<i64>, Option<i64>)| lower.zip(upper);
    lower.into_iter().zip(upper).map(range).collect()
}

/// Integers, or days of dates; `None` for those of more than 64 bits.
fn integers(values: &ArrayRef) -> Vec<Option<i64>> {
    match cast(values, &DataType::Int64) {
        Ok(integers) => integers.as_primitive::<Int64Type>().iter().collect(),
        Err(_) => vec![None; values.len()],
    }
}

/// Whether ranges span, on average, a small part of all values. Unknown ranges span all.
fn are_narrow(ranges: &[Option<(i64, i64)>]) -> bool {
    let known = || ranges.iter().flatten();
    let least = known().map(|(least, _)| *least).min();
    let greatest = known().map(|(_, greatest)| *greatest).max();
    let Some((least, greatest)) = least.zip(greatest).filter(|_| ranges.len() >= MIN_GROUPS) else {
        return false;
    };
    let span = |least: i64, greatest: i64| greatest as f64 - least as f64 + 1.0;
    let all = span(least, greatest);
    let spans = ranges.iter();
    let spans = spans.map(|range| range.map_or(all, |(least, greatest)| span(least, greatest)));
    spans.sum::<f64>() <= PART * all * ranges.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordered_ranges_are_narrow() {
        let ordered: Vec<_> = (0..8)
            .map(|group| Some((group * 100, group * 100 + 120)))
            .collect();
        assert!(are_narrow(&ordered));
        assert!(!are_narrow(&ordered[..3]), "too few");
        let unordered = vec![Some((0, 800)); 8];
        assert!(!are_narrow(&unordered));
        let mut unknown = ordered.clone();
        unknown[0] = None;
        unknown[5] = None;
        assert!(!are_narrow(&unknown));
        assert!(!are_narrow(&[None; 8]) && !are_narrow(&[]));
    }

    #[test]
    fn extremes_do_not_overflow() {
        let ranges = [
            Some((i64::MIN, i64::MIN + 1)),
            Some((0, 1)),
            Some((2, 3)),
            Some((i64::MAX, i64::MAX)),
        ];
        assert!(are_narrow(&ranges));
        assert!(!are_narrow(&[Some((i64::MIN, i64::MAX)); 4]));
    }
}
