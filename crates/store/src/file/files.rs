//! The files of a table, and the objects needed to read their columns.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::execution::runtime_env::RuntimeEnv;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::error::{Result, StoreError};
use crate::store::Store;
use crate::version::SourceFile;

/// The properties of a table in files that do not depend on their contents.
#[derive(Debug)]
pub(super) struct TableFiles {
    pub(super) store: Arc<Store>,
    pub(super) runtime: Arc<RuntimeEnv>,
    pub(super) objects: Arc<dyn ObjectStore>,
    /// The name in messages: the file, or the first of several.
    pub(super) name: String,
    /// The files as the listing of the scan recorded them.
    pub(super) listed: Vec<SourceFile>,
    /// Columns of the files.
    pub(super) file_schema: SchemaRef,
    /// Columns of the files, followed by the partition columns.
    pub(super) schema: SchemaRef,
}

impl TableFiles {
    /// The scan's files, whole, each once, in the order of its partitions.
    pub(super) fn of(store: &Arc<Store>, scan: &FileScanConfig, runtime: &Arc<RuntimeEnv>) -> Result<Self> {
        let schema = scan.file_source.table_schema();
        let listed = whole_files(scan);
        Ok(Self {
            store: Arc::clone(store),
            runtime: Arc::clone(runtime),
            objects: runtime.object_store(&scan.object_store_url)?,
            name: table_name(&listed),
            listed,
            file_schema: Arc::clone(schema.file_schema()),
            schema: Arc::clone(schema.table_schema()),
        })
    }

    /// The values of the partition columns of all files; empty if the table has none.
    pub(super) fn partitions(&self) -> String {
        let files = self.listed.iter().map(|file| &file.partition_values);
        let files: Vec<_> = files.filter(|values| !values.is_empty()).collect();
        match files.is_empty() {
            true => String::new(),
            false => format!("{files:?}"),
        }
    }

    /// The files. Local ones have their current metadata.
    pub(super) async fn now(&self) -> Result<Vec<SourceFile>> {
        let mut files = Vec::with_capacity(self.listed.len());
        for file in &self.listed {
            let mut file = file.clone();
            if file.path.is_some() {
                let head = self.objects.head(&file.meta.location).await;
                file.meta = head.map_err(|error| StoreError::Io {
                    file: file.name(),
                    source: error.into(),
                })?;
            }
            files.push(file);
        }
        Ok(files)
    }
}

fn whole_files(scan: &FileScanConfig) -> Vec<SourceFile> {
    let local = scan.object_store_url.as_str().starts_with("file://");
    let mut seen = BTreeSet::new();
    let mut files = Vec::new();
    for file in scan.file_groups.iter().flat_map(FileGroup::iter) {
        if !seen.insert(file.object_meta.location.clone()) {
            continue;
        }
        let path = PathBuf::from(format!("/{}", file.object_meta.location));
        files.push(SourceFile {
            meta: file.object_meta.clone(),
            path: (local && path.is_file()).then_some(path),
            partition_values: file.partition_values.clone(),
        });
    }
    files
}

fn table_name(files: &[SourceFile]) -> String {
    match files {
        [] => "a table without files".to_owned(),
        [file] => file.name(),
        [file, rest @ ..] => format!("{} and {} more files", file.name(), rest.len()),
    }
}
