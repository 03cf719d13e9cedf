//! One of the files of a table.

use std::path::PathBuf;

use datafusion::common::ScalarValue;
use object_store::ObjectMeta;

/// One file of a table.
#[derive(Debug, Clone)]
pub(crate) struct SourceFile {
    pub(crate) meta: ObjectMeta,
    /// Its path on the local file system, if it exists there.
    pub(crate) path: Option<PathBuf>,
    /// Values of the partition columns for all its rows.
    pub(crate) partition_values: Vec<ScalarValue>,
}

impl SourceFile {
    /// The name in messages: the path, or the place in its object store.
    pub(crate) fn name(&self) -> String {
        self.path.as_ref().map_or_else(
            || self.meta.location.to_string(),
            |path| path.display().to_string(),
        )
    }
}
