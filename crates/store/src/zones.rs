//! Zone maps of an integer column together: its bounds, and whether its rows are in the order of its values.

use crate::column::{Column, Scalar, Zone};
use std::ops::RangeInclusive;

/// The bounds of the values of an integer column, over some of its chunks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeyZones {
    /// A lower bound of all values.
    pub least: i128,
    /// An upper bound of all values.
    pub greatest: i128,
    /// Number of chunks that have values.
    pub chunks: usize,
    /// Average number of chunks whose bounds contain a value between the least and the greatest one.
    pub overlap: f64,
}

impl KeyZones {
    /// Maximum average number of chunks that contain a value of a column in order.
    const OVERLAP: f64 = 2.0;
    /// Minimum number of chunks of a column in order.
    const CHUNKS: usize = 8;

    /// The zones of these chunks of a column; `None` if it has no integers.
    #[must_use]
    pub fn of(column: &Column, chunks: impl IntoIterator<Item = usize>) -> Option<Self> {
        Self::of_zones(chunks.into_iter().map(|chunk| &column.chunks[chunk].zone))
    }

    fn of_zones<'z>(zones: impl Iterator<Item = &'z Zone>) -> Option<Self> {
        let bounds = |zone: &Zone| match (&zone.min, &zone.max) {
            (Some(Scalar::Integer(min)), Some(Scalar::Integer(max))) => Some((*min, *max)),
            _ => None,
        };
        let bounds: Vec<(i128, i128)> = zones.filter_map(bounds).collect();
        let least = bounds.iter().map(|(low, _)| *low).min()?;
        let greatest = bounds.iter().map(|(_, high)| *high).max()?;
        let all = (greatest - least) as f64 + 1.0;
        let share = |(low, high): &(i128, i128)| (high - low) as f64 / all;
        Some(Self {
            least,
            greatest,
            chunks: bounds.len(),
            overlap: bounds.iter().map(share).sum(),
        })
    }

    /// Whether a chunk of an integer column may have a value within these bounds; `true` for other columns.
    #[must_use]
    pub fn may_hold(column: &Column, chunk: usize, values: &RangeInclusive<i128>) -> bool {
        match (&column.chunks[chunk].zone.min, &column.chunks[chunk].zone.max) {
            (Some(Scalar::Integer(min)), Some(Scalar::Integer(max))) => {
                min <= values.end() && max >= values.start()
            }
            _ => true,
        }
    }

    /// Whether the rows are in the order of the values, or nearly so.
    #[must_use]
    pub fn are_ordered(&self) -> bool {
        self.chunks >= Self::CHUNKS && self.overlap <= Self::OVERLAP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones(bounds: &[Option<(i128, i128)>]) -> Option<KeyZones> {
        let zones: Vec<Zone> = bounds
            .iter()
            .map(|bounds| Zone {
                min: bounds.map(|(low, _)| Scalar::Integer(low)),
                max: bounds.map(|(_, high)| Scalar::Integer(high)),
                null_count: 0,
                has_nan: false,
                exact: true,
            })
            .collect();
        KeyZones::of_zones(zones.iter())
    }

    #[test]
    fn bounds_cover_all_chunks_with_values() {
        let found = zones(&[Some((5, 9)), None, Some((-3, 1))]).expect("integers");
        assert_eq!((found.least, found.greatest, found.chunks), (-3, 9, 2));
        assert_eq!(zones(&[None]), None);
        assert_eq!(zones(&[]), None);
    }

    #[test]
    fn order_needs_many_chunks_that_hardly_overlap() {
        let ordered: Vec<_> = (0..8).map(|chunk| Some((10 * chunk, 10 * chunk + 9))).collect();
        assert!(zones(&ordered).is_some_and(|zones| zones.are_ordered()));
        assert!(zones(&ordered[1..]).is_some_and(|zones| !zones.are_ordered()));
        let mixed = [Some((0, 79)); 8];
        assert!(zones(&mixed).is_some_and(|zones| !zones.are_ordered()));
        let extremes: Vec<_> = (0..8)
            .map(|_| Some((i128::from(i64::MIN), i128::from(i64::MAX))))
            .collect();
        assert!(zones(&extremes).is_some_and(|zones| !zones.are_ordered()));
    }
}
