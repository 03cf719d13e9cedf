//! Bounds of the keys of a partition, for zone maps.

use galatea_store::{KeyZones, TableView};
use std::ops::RangeInclusive;

/// Values of an integer column of a pipeline's source. Zone maps skip chunks without these values.
#[derive(Debug, Clone)]
pub struct KeyBounds {
    /// The column, by its index in the source.
    column: usize,
    keys: RangeInclusive<i128>,
    /// Values below this one, and NULL, are included as well.
    outside: Option<i64>,
}

impl KeyBounds {
    /// The values `keys` of a column. `outside`: also the values below this one, and NULL.
    pub(super) fn new(column: usize, keys: RangeInclusive<i128>, outside: Option<i64>) -> Self {
        Self {
            column,
            keys,
            outside,
        }
    }

    /// Whether a chunk of a view with these columns of the source may have such a value.
    pub(crate) fn may_hold(&self, view: &TableView, columns: &[usize], chunk: usize) -> bool {
        let at = columns.binary_search(&self.column).ok();
        let Some(column) = at.and_then(|at| view.columns.get(at)) else {
            return true;
        };
        let below = |least: i64| i128::MIN..=i128::from(least) - 1;
        KeyZones::may_hold(column, chunk, &self.keys)
            || self.outside.is_some_and(|least| {
                column.chunks[chunk].zone.null_count > 0 || KeyZones::may_hold(column, chunk, &below(least))
            })
    }
}
