//! The row groups among which a selection is made.

use std::sync::Arc;

use ::parquet::file::metadata::RowGroupMetaData;
use arrow::datatypes::SchemaRef;
use datafusion::physical_expr::PhysicalExpr;

use super::places::Place;
use crate::version::RowGroups;

/// The row groups of a table among which a selection is made.
pub(super) struct Candidates {
    pub(super) row_groups: Arc<RowGroups>,
    /// File, number in the file and rows, of those with rows.
    pub(super) groups: Vec<(usize, usize, usize)>,
    pub(super) schema: SchemaRef,
    pub(super) predicates: Vec<Arc<dyn PhysicalExpr>>,
    /// The columns of the predicates, and how each file stores them.
    pub(super) columns: Vec<(usize, Vec<Place>)>,
}

impl Candidates {
    pub(super) fn metadata(&self, file: usize, group: usize) -> &RowGroupMetaData {
        self.row_groups.files[file].metadata.row_group(group)
    }
}
