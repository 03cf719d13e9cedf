//! The interface between the store and its readers.
//!
//! A [`ColumnSource`] is a table that can produce encoded columns. [`crate::StoredTable`] always has them in
//! memory; [`crate::FileTable`] reads and encodes a column on first use and caches it in the
//! [`crate::Store`]. Either way the caller gets a [`TableView`]: the requested columns, which share one
//! sequence of chunks and live as long as the view.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::physical_expr::PhysicalExpr;

use crate::column::Column;
use crate::error::{Result, StoreError};
use crate::load_report::LoadReport;

/// Identifies one version of one table's contents. Within a process, different contents never have the same
/// id, so it is a key for derived data (copies in device memory, statistics).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(u64);

impl TableId {
    /// A number that no other table version has.
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The number itself.
    pub fn value(self) -> u64 {
        self.0
    }
}

/// Columns of a table, as a pipeline binds them.
#[derive(Debug, Clone)]
pub struct TableView {
    /// The table version of these columns.
    pub id: TableId,
    /// Schema of exactly [`Self::columns`].
    pub schema: SchemaRef,
    /// Rows in all chunks.
    pub rows: u64,
    /// Rows of each chunk, each at least 1. All columns share the chunks.
    pub chunk_rows: Vec<u32>,
    /// The requested columns, in the requested order.
    pub columns: Vec<Arc<Column>>,
    /// The load that read some of the columns from files; none if all of them were in memory.
    pub loaded: Option<Arc<LoadReport>>,
}

/// Checks indices of columns.
///
/// # Errors
/// [`StoreError::UnknownColumn`] for an index that is not below `count`.
pub(crate) fn check_columns(columns: &[usize], count: usize) -> Result<()> {
    match columns.iter().find(|index| **index >= count) {
        Some(index) => Err(StoreError::UnknownColumn {
            index: *index,
            columns: count,
        }),
        None => Ok(()),
    }
}

/// Requirements of the caller on the columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadHints {
    /// Columns (indices into the table's schema) of strings or binaries that must be
    /// [`crate::Encoding::Dictionary`] whatever their cardinality.
    pub dictionary: Vec<usize>,
    /// Predicates over the table's schema. The caller needs only rows that satisfy all of them. Other rows
    /// may be missing in the view, so that row numbers differ from those of the table. A view with missing
    /// rows has an id of its own.
    pub predicates: Vec<Arc<dyn PhysicalExpr>>,
    /// Whether the caller drops the columns after its query, so that later loads cannot reuse them.
    pub is_temporary: bool,
}

impl LoadHints {
    /// Hints that these columns of strings must have a dictionary.
    pub fn with_dictionaries(columns: Vec<usize>) -> Self {
        Self {
            dictionary: columns,
            ..Self::default()
        }
    }
}

/// A column of files that a cache on disk holds in its encoded form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnOnDisk {
    /// Encoded bytes, with the dictionary.
    pub bytes: u64,
    /// Whether it has strings without a dictionary.
    pub is_text: bool,
}

/// Progress of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadProgress {
    /// Rows done, averaged over the columns being loaded.
    pub rows_done: u64,
    /// Rows in the table, if known beforehand.
    pub rows_total: Option<u64>,
    /// Bytes read from files (compressed, for Parquet).
    pub bytes_read: u64,
    /// Bytes of encoded data so far.
    pub bytes_encoded: u64,
}

/// Called from worker threads, about once per chunk and column.
pub type ProgressCallback = Arc<dyn Fn(LoadProgress) + Send + Sync>;

/// A table that provides encoded columns.
#[async_trait]
pub trait ColumnSource: Send + Sync + Debug {
    /// The table's name, as EXPLAIN shows it.
    fn name(&self) -> &str;

    /// All columns of the table.
    fn schema(&self) -> SchemaRef;

    /// The current version. The contents may change before a load: the version of the loaded columns is
    /// [`TableView::id`].
    fn identity(&self) -> TableId;

    /// The columns with these indices, if all are in memory in an encoding that satisfies the hints. Reads
    /// nothing.
    fn kept(&self, columns: &[usize], hints: &LoadHints) -> Option<Vec<Arc<Column>>>;

    /// The column with this index in the cache on disk, in an encoding that satisfies the hints. Reads no
    /// values.
    fn on_disk(&self, _column: usize, _hints: &LoadHints) -> Option<ColumnOnDisk> {
        None
    }

    /// Whether each part of the table's files has few of the values of a column of integers or dates, so that
    /// a range of its values selects few parts. Reads footers.
    async fn is_clustered(&self, _column: usize) -> bool {
        false
    }

    /// Returns the columns with these indices, after reading and encoding them if necessary. Dropping the
    /// future cancels the work.
    ///
    /// # Errors
    /// [`crate::StoreError::is_refusal`] distinguishes columns that the store declines to hold from columns
    /// that it could not read.
    async fn load(
        &self,
        columns: &[usize],
        hints: &LoadHints,
        progress: Option<ProgressCallback>,
    ) -> Result<TableView>;
}
