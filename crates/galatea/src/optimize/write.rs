//! Writes the target: row groups are encoded in parallel and appended in order.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use datafusion::parquet::errors::{ParquetError, Result as ParquetResult};
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::file::writer::SerializedFileWriter;
use tempfile::NamedTempFile;

use super::error::OptimizeError;

/// Bytes of the file that are written at once.
const BUFFER: usize = 1 << 20;

/// A target under a temporary name beside it. It is removed unless it is kept.
pub(super) struct Target {
    path: PathBuf,
    file: NamedTempFile,
    writer: SerializedFileWriter<BufWriter<File>>,
    encoder: Encoder,
}

/// Encodes row groups.
#[derive(Clone)]
pub(super) struct Encoder {
    path: Arc<Path>,
    schema: SchemaRef,
    factory: Arc<ArrowRowGroupWriterFactory>,
}

impl Target {
    pub(super) fn create(
        path: &Path,
        schema: &SchemaRef,
        properties: WriterProperties,
    ) -> Result<Self, OptimizeError> {
        let failed = |cause| OptimizeError::Write {
            path: path.to_owned(),
            cause,
        };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let file = NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).map_err(failed)?;
        let buffer = BufWriter::with_capacity(BUFFER, file.reopen().map_err(failed)?);
        let (writer, factory) = ArrowWriter::try_new(buffer, Arc::clone(schema), Some(properties))
            .and_then(ArrowWriter::into_serialized_writer)
            .map_err(|cause| encode_error(path, cause))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            writer,
            encoder: Encoder {
                path: path.into(),
                schema: Arc::clone(schema),
                factory: Arc::new(factory),
            },
        })
    }

    pub(super) fn encoder(&self) -> Encoder {
        self.encoder.clone()
    }

    /// Appends a row group.
    pub(super) fn append(&mut self, group: Vec<ArrowColumnChunk>) -> Result<(), OptimizeError> {
        let append = || {
            let mut writer = self.writer.next_row_group()?;
            for column in group {
                column.append_to_row_group(&mut writer)?;
            }
            writer.close()
        };
        append()
            .map(drop)
            .map_err(|cause| encode_error(&self.path, cause))
    }

    /// Writes the footer, and gives the file its name if it has `rows` rows. It gets the permissions of
    /// `source`.
    pub(super) fn keep(mut self, source: &Path, rows: u64) -> Result<ParquetMetaData, OptimizeError> {
        let footer = self
            .writer
            .finish()
            .map_err(|cause| encode_error(&self.path, cause))?;
        let written = footer
            .row_groups()
            .iter()
            .map(|group| group.num_rows().unsigned_abs())
            .sum();
        if written != rows {
            return Err(OptimizeError::Rows {
                path: source.to_owned(),
                read: rows,
                written,
            });
        }
        let failed = |cause| OptimizeError::Write {
            path: self.path.clone(),
            cause,
        };
        let permissions = std::fs::metadata(source).map_err(|cause| OptimizeError::Read {
            path: source.to_owned(),
            cause,
        })?;
        let file = self.file.as_file();
        file.set_permissions(permissions.permissions()).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        self.file
            .persist(&self.path)
            .map_err(|error| failed(error.error))?;
        Ok(footer)
    }
}

impl Encoder {
    /// Encodes a row group.
    pub(super) fn encode(
        &self,
        batches: impl Iterator<Item = Result<RecordBatch, OptimizeError>>,
    ) -> Result<Vec<ArrowColumnChunk>, OptimizeError> {
        let failed = |cause| encode_error(&self.path, cause);
        // No column is encrypted, so the number of the row group has no effect.
        let mut writers = self.factory.create_column_writers(0).map_err(failed)?;
        for batch in batches {
            let batch = batch?;
            let mut write = || -> ParquetResult<()> {
                let mut leaves = writers.iter_mut();
                for (field, values) in self.schema.fields().iter().zip(batch.columns()) {
                    for leaf in compute_leaves(field, values)? {
                        let writer = leaves.next().ok_or_else(|| {
                            ParquetError::General(format!("column {} has too many leaves", field.name()))
                        })?;
                        writer.write(&leaf)?;
                    }
                }
                Ok(())
            };
            write().map_err(failed)?;
        }
        let closed = writers.into_iter().map(ArrowColumnWriter::close);
        closed.collect::<ParquetResult<_>>().map_err(failed)
    }
}

pub(super) fn encode_error(path: &Path, cause: ParquetError) -> OptimizeError {
    OptimizeError::Encode {
        path: path.to_owned(),
        cause,
    }
}
