//! The file that is rewritten.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::ipc::convert::try_schema_from_ipc_buffer;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use datafusion::parquet::arrow::ARROW_SCHEMA_META_KEY;
use datafusion::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use datafusion::parquet::basic::Type as PhysicalType;
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
        let damaged = |cause| OptimizeError::Damaged {
            path: path.to_owned(),
            cause,
        };
        let footer = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).map_err(damaged)?;
        let footer = match with_lost_types(&footer) {
            None => footer,
            Some(schema) => {
                let options = ArrowReaderOptions::new().with_schema(schema);
                ArrowReaderMetadata::load(&file, options).map_err(damaged)?
            }
        };
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

/// The schema with types that Arrow would lose; `None` if there are none.
///
/// Columns of days in the file, which Arrow reads as milliseconds: the writer would write integers for them.
/// Time zones of timestamps with another unit in the file than in the file's Arrow schema: Arrow reads UTC.
fn with_lost_types(footer: &ArrowReaderMetadata) -> Option<SchemaRef> {
    let schema = footer.schema();
    let stated = stated_schema(footer);
    let fields = schema.fields().iter().enumerate().map(|(root, field)| {
        if is_days(footer, root, field) {
            return Arc::new(field.as_ref().clone().with_data_type(DataType::Date32));
        }
        match stated
            .as_ref()
            .and_then(|stated| stated.field_with_name(field.name()).ok())
        {
            Some(stated) => with_zones(field, stated),
            None => Arc::clone(field),
        }
    });
    let fields: Vec<FieldRef> = fields.collect();
    let is_changed = fields
        .iter()
        .zip(schema.fields())
        .any(|(one, other)| one != other);
    is_changed.then(|| Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

fn is_days(footer: &ArrowReaderMetadata, root: usize, field: &Field) -> bool {
    let leaves = footer.parquet_schema();
    let leaf = (0..leaves.num_columns()).find(|leaf| leaves.get_column_root_idx(*leaf) == root);
    let is_day = leaf.is_some_and(|leaf| leaves.column(leaf).physical_type() == PhysicalType::INT32);
    is_day && *field.data_type() == DataType::Date64
}

/// The Arrow schema that the writer of the file has stored.
fn stated_schema(footer: &ArrowReaderMetadata) -> Option<Schema> {
    let entries = footer.metadata().file_metadata().key_value_metadata()?;
    let stored = entries.iter().find(|entry| entry.key == ARROW_SCHEMA_META_KEY)?;
    let bytes = BASE64_STANDARD.decode(stored.value.as_ref()?).ok()?;
    try_schema_from_ipc_buffer(&bytes).ok()
}

/// The field with the time zones of another one.
fn with_zones(field: &FieldRef, stated: &Field) -> FieldRef {
    let data_type = match (field.data_type(), stated.data_type()) {
        (DataType::Timestamp(unit, Some(_)), DataType::Timestamp(_, Some(zone))) => {
            DataType::Timestamp(*unit, Some(Arc::clone(zone)))
        }
        (DataType::Struct(fields), DataType::Struct(stated)) if fields.len() == stated.len() => {
            let fields = fields.iter().zip(stated);
            DataType::Struct(fields.map(|(field, stated)| with_zones(field, stated)).collect())
        }
        (DataType::List(field), DataType::List(stated)) => DataType::List(with_zones(field, stated)),
        (DataType::LargeList(field), DataType::LargeList(stated)) => {
            DataType::LargeList(with_zones(field, stated))
        }
        (DataType::FixedSizeList(field, length), DataType::FixedSizeList(stated, _)) => {
            DataType::FixedSizeList(with_zones(field, stated), *length)
        }
        (DataType::Map(field, is_sorted), DataType::Map(stated, _)) => {
            DataType::Map(with_zones(field, stated), *is_sorted)
        }
        _ => return Arc::clone(field),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
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
