//! Readers of the files of a scan: the store's for Parquet, DataFusion's for all other formats.

use std::sync::Arc;

use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetAccessPlan;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, ParquetFileReaderFactory};

use super::guarded::parquet_source;
use super::load::Load;
use super::native::NativeScan;
use super::parquet::ParquetFormat;
use crate::column::Column;
use crate::error::{Result, StoreError};

/// The reader of the files; see the module documentation.
#[derive(Debug)]
pub(super) enum Format {
    Parquet(ParquetFormat),
    /// Read by DataFusion.
    Native(Box<NativeScan>),
}

impl Format {
    /// The format of a scan's files; `table` is their name in messages.
    ///
    /// # Errors
    /// [`StoreError::UnsupportedSource`] for scans that are not equivalent to the whole files.
    pub(super) fn of(scan: &FileScanConfig, table: &str) -> Result<Self> {
        let refuse = |reason: &str| {
            Err(StoreError::UnsupportedSource {
                table: table.to_owned(),
                reason: reason.to_owned(),
            })
        };
        let source = &scan.file_source;
        if !source.table_schema().virtual_columns().is_empty() {
            return refuse("it has virtual columns");
        }
        if scan.expr_adapter_factory.is_some() {
            return refuse("it has a schema adapter of its own");
        }
        let selected = |file: &PartitionedFile| {
            file.extension::<ParquetAccessPlan>().is_some() || file.arrow_schema.is_some()
        };
        if scan.file_groups.iter().flat_map(FileGroup::iter).any(selected) {
            return refuse("row groups or a schema were chosen for its files by hand");
        }
        let Some(parquet) = parquet_source(source.as_ref()) else {
            return match source.filter() {
                Some(_) => refuse("its source filters rows"),
                None => Ok(Self::Native(Box::new(NativeScan::new(scan)))),
            };
        };
        let options = parquet.table_parquet_options();
        if options.crypto.file_decryption.is_some() || options.crypto.factory_id.is_some() {
            return refuse("its files are encrypted");
        }
        let factory = parquet.parquet_file_reader_factory();
        if factory.is_some_and(|factory| !is_datafusions(factory)) {
            return refuse("it has a reader of its own");
        }
        ParquetFormat::new(&options.global).map(Self::Parquet)
    }

    /// Distinguishes ways of reading the same files.
    pub(super) fn describe(&self, file_type: &str) -> String {
        match self {
            Self::Parquet(format) => format!("{file_type} {}", format.describe()),
            Self::Native(scan) => format!("{file_type} {}", scan.describe()),
        }
    }

    /// Reads and encodes columns. Without columns, only determines the chunks' numbers of rows.
    pub(super) async fn load(&self, load: Load<'_>) -> Result<Vec<Arc<Column>>> {
        match self {
            Self::Parquet(format) => format.load(load).await,
            Self::Native(scan) => scan.load(load).await,
        }
    }
}

/// Whether a reader factory is one of DataFusion's own.
fn is_datafusions(factory: &Arc<dyn ParquetFileReaderFactory>) -> bool {
    let text = format!("{factory:?}");
    text.starts_with("CachedParquetFileReaderFactory") || text.starts_with("DefaultParquetFileReaderFactory")
}
