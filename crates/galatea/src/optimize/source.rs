//! The file that is rewritten.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::parquet::arrow::ARROW_SCHEMA_META_KEY;
use datafusion::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use datafusion::parquet::errors::ParquetError;
use datafusion::parquet::file::metadata::{KeyValue, ParquetMetaData};

use super::error::OptimizeError;

/// Rows of a batch.
const BATCH: usize = 8192;

/// A Parquet file with its footer.
#[derive(Debug, Clone)]
pub(super) struct Source {
    path: Arc<Path>,
    footer: ArrowReaderMetadata,
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Self, OptimizeError> {
        let read = |cause| OptimizeError::Read {
            path: path.to_owned(),
            cause,
        };
        let file = File::open(path).map_err(read)?;
        let footer = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).map_err(|cause| {
            OptimizeError::Damaged {
                path: path.to_owned(),
                cause,
            }
        })?;
        Ok(Self {
            path: path.into(),
            footer,
        })
    }

    pub(super) fn path(&self) -> PathBuf {
        self.path.to_path_buf()
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        self.footer.schema()
    }

    pub(super) fn metadata(&self) -> &ParquetMetaData {
        self.footer.metadata()
    }

    pub(super) fn rows(&self) -> usize {
        let groups = self.metadata().row_groups().iter();
        groups
            .map(|group| usize::try_from(group.num_rows()).unwrap_or(0))
            .sum()
    }

    /// Entries of the footer, such as those of pandas, without Arrow's schema, which the writer adds.
    pub(super) fn entries(&self) -> Option<Vec<KeyValue>> {
        let entries = self.metadata().file_metadata().key_value_metadata()?;
        let others = entries.iter().filter(|entry| entry.key != ARROW_SCHEMA_META_KEY);
        Some(others.cloned().collect())
    }

    /// Reads a range of rows, in the order of the file.
    pub(super) fn read(&self, range: Range<usize>) -> Result<Batches, OptimizeError> {
        let (mut groups, mut offset, mut end) = (Vec::new(), None, 0);
        for (index, group) in self.metadata().row_groups().iter().enumerate() {
            let begin = end;
            end += usize::try_from(group.num_rows()).unwrap_or(0);
            if begin < range.end && range.start < end {
                offset.get_or_insert(range.start.saturating_sub(begin));
                groups.push(index);
            }
        }
        // Clones of a handle share its position, so each reader has its own.
        let file = File::open(&self.path).map_err(|cause| OptimizeError::Read {
            path: self.path(),
            cause,
        })?;
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.footer.clone())
            .with_batch_size(BATCH)
            .with_row_groups(groups)
            .with_offset(offset.unwrap_or(0))
            .with_limit(range.len())
            .build();
        Ok(Batches {
            source: self.clone(),
            reader: reader.map_err(|cause| self.damaged(cause))?,
        })
    }

    fn damaged(&self, cause: ParquetError) -> OptimizeError {
        OptimizeError::Damaged {
            path: self.path(),
            cause,
        }
    }
}

/// Rows of a [`Source`].
pub(super) struct Batches {
    source: Source,
    reader: ParquetRecordBatchReader,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, OptimizeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.reader.next()?;
        Some(batch.map_err(|cause| self.source.damaged(cause.into())))
    }
}
