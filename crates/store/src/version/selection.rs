//! The rows of a table that a query needs, by row group.

use std::ops::Range;

use crate::load_report::Pruning;

/// Rows of a row group that a query needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SelectedGroup {
    pub(crate) file: usize,
    /// Its number in the file.
    pub(crate) group: usize,
    /// Ranges of rows within the row group, ascending and not adjacent; `None` for all rows.
    pub(crate) rows: Option<Vec<Range<usize>>>,
}

impl SelectedGroup {
    /// Whether this selection of a row group contains all rows of `other`, a selection of the same row group.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (&self.rows, &other.rows) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(others)) => others.iter().all(|needed| {
                own.iter()
                    .any(|range| range.start <= needed.start && needed.end <= range.end)
            }),
        }
    }
}

/// The rows of a table that predicates select, by row group, in the order of the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) groups: Vec<SelectedGroup>,
    /// The counts of the pruning.
    pub(crate) pruning: Pruning,
}

impl Selection {
    /// Whether this selection contains all rows of `other`.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let mut own = self.groups.iter();
        other.groups.iter().all(|needed| {
            own.find(|group| (group.file, group.group) == (needed.file, needed.group))
                .is_some_and(|group| group.covers(needed))
        })
    }
}
