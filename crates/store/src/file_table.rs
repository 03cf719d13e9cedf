//! Tables in files: columns are encoded when first used and kept while memory allows.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use crate::source::TableId;
use crate::store::Store;

/// A table in Parquet, CSV, JSON or Arrow files.
#[derive(Debug)]
pub struct FileTable {
    store: Arc<Store>,
    schema: SchemaRef,
    id: TableId,
}

impl FileTable {
    /// The store that keeps the columns.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }
    /// The table's schema.
    pub fn table_schema(&self) -> &SchemaRef {
        &self.schema
    }
    /// The version of the files.
    pub fn id(&self) -> TableId {
        self.id
    }
}

/// Versions.
#[derive(Debug, Default)]
pub(crate) struct FileVersions;
