//! `filename = true` of `read_csv`, `read_parquet` and `read_json`: a column with the path of each row's
//! file.
//!
//! The column is a partition column with one value per file. So the scan computes it without reading, pruning
//! uses it, and the device has it as a column with few values.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{ColumnStatistics, ScalarValue, plan_err};
use datafusion::datasource::TableType;
use datafusion::datasource::listing::{ListingTable, ListingTableUrl, PartitionedFile};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use galatea_store::inexact;
use object_store::path::Path;

use crate::sql::Read;
use crate::standard_input;

/// The name of the column unless the option states another one.
const COLUMN: &str = "filename";

/// The name of the column that the option `filename` of a function adds; `None` without it.
pub(crate) fn column(read: &Read) -> Option<String> {
    let value = read.option("filename")?;
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" | "t" => Some(COLUMN.to_owned()),
        "false" | "0" | "f" => None,
        _ => Some(value.to_owned()),
    }
}

/// The paths of files as the query names them, by their locations in the object store.
pub(crate) fn paths(read: &Read, files: &[PathBuf], urls: &[ListingTableUrl]) -> HashMap<Path, String> {
    let of_input = match read.paths.as_slice() {
        [path] if standard_input::is_named(path) => Some(path.clone()),
        _ => None,
    };
    let name = |file: &PathBuf| {
        of_input
            .clone()
            .unwrap_or_else(|| file.to_string_lossy().into_owned())
    };
    let pairs = urls.iter().zip(files);
    pairs
        .map(|(url, file)| (url.prefix().clone(), name(file)))
        .collect()
}

/// Files with the column of their paths.
pub(crate) struct NamedFiles {
    files: ListingTable,
    schema: SchemaRef,
    column: FieldRef,
    paths: HashMap<Path, String>,
}

impl fmt::Debug for NamedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedFiles")
            .field("files", &self.files)
            .field("column", &self.column.name())
            .finish_non_exhaustive()
    }
}

impl NamedFiles {
    /// Adds the column to a table of files without partition columns.
    ///
    /// # Errors
    /// The files have a column of this name.
    pub(crate) fn new(files: ListingTable, column: &str, paths: HashMap<Path, String>) -> Result<Self> {
        let inner = files.schema();
        if inner.column_with_name(column).is_some() {
            return plan_err!(
                "the option filename adds the column {column}, and the files have a column of this name\nhint: name the column: filename = 'other_name'"
            );
        }
        let column = Arc::new(Field::new(column, DataType::Utf8, false));
        let fields = inner.fields().iter().cloned().chain([Arc::clone(&column)]);
        let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), inner.metadata().clone());
        Ok(Self {
            schema: Arc::new(schema),
            files,
            column,
            paths,
        })
    }

    /// The file with its path as the value of the partition column.
    fn with_path(&self, mut file: PartitionedFile) -> PartitionedFile {
        let location = &file.object_meta.location;
        let path = self.paths.get(location).cloned();
        let path = path.unwrap_or_else(|| format!("/{location}"));
        file.partition_values = vec![ScalarValue::Utf8(Some(path))];
        match file.statistics.take() {
            // This adds statistics of the partition column.
            Some(statistics) => file.with_statistics(statistics),
            None => file,
        }
    }
}

#[async_trait]
impl TableProvider for NamedFiles {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let listed = self.files.list_files_for_scan(state, &[], None).await?;
        let Some(url) = self
            .files
            .table_paths()
            .first()
            .filter(|_| !listed.file_groups.is_empty())
        else {
            let schema = match projection {
                Some(columns) => Arc::new(self.schema.project(columns)?),
                None => Arc::clone(&self.schema),
            };
            return Ok(Arc::new(EmptyExec::new(schema)));
        };
        let groups = listed.file_groups.into_iter().map(|group| {
            let files = group.into_inner().into_iter().map(|file| self.with_path(file));
            FileGroup::new(files.collect())
        });
        let mut statistics = listed.statistics;
        statistics.column_statistics.push(ColumnStatistics::new_unknown());
        let table = TableSchema::builder(self.files.schema())
            .with_table_partition_cols(vec![Arc::clone(&self.column)])
            .build();
        let format = &self.files.options().format;
        let config = FileScanConfigBuilder::new(url.object_store(), format.file_source(table))
            .with_file_groups(groups.collect())
            .with_statistics(statistics)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        format.create_physical_plan(state, config).await
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(inexact(filters))
    }
}
