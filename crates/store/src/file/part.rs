//! The part of a table that a load reads.

use std::sync::Arc;

use crate::load_report::Pruning;
use crate::source::TableId;
use crate::version::{Slice, Version};

/// The part of a version that a load reads.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    /// The slice of the version; `None` for all rows.
    pub(super) slice: Option<Arc<Slice>>,
    /// The row groups that the predicates skip, for the report; `None` if no selection was computed.
    pub(super) pruning: Option<Pruning>,
    /// Bytes of each column that the part reads: index of the column, bytes.
    pub(super) bytes: Vec<(usize, u64)>,
}

impl Part {
    /// The identity of the part's columns.
    pub(super) fn id(&self, version: &Version) -> TableId {
        self.slice.as_ref().map_or(version.id, |slice| slice.id)
    }

    /// Rows of each chunk.
    pub(super) fn chunk_rows(&self, version: &Version) -> Vec<u32> {
        match &self.slice {
            Some(slice) => slice.row_groups.chunk_rows(),
            None => version.chunk_rows.get().cloned().unwrap_or_default(),
        }
    }

    /// Records that a column of the part was read from the files.
    pub(super) fn read(&self, version: &Version, column: usize) {
        match &self.slice {
            None => version.slices.loaded_whole(column),
            Some(_) => {
                let bytes = self.bytes.iter().find(|(of, _)| *of == column);
                let bytes = bytes.map_or(0, |(_, bytes)| *bytes);
                version.slices.spend(column, bytes);
            }
        }
    }
}

/// Bytes of a column in the files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ColumnSize {
    /// In all row groups.
    pub(super) whole: u64,
    /// In the selected rows, estimated.
    pub(super) part: u64,
}
