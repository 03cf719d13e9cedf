//! Reads and encodes columns of chunks of Parquet files.
//!
//! Columns of dictionary indices are encoded without their values (`indices.rs`). For others, the parquet
//! crate is configured to return columns in the form that is cheapest to encode: decimals of up to 18 digits
//! as 64-bit integers, strings as views, and strings in dictionary pages only as Arrow dictionaries, which
//! need not be hashed row by row. If a file's column does not have the table's type, it is cast as DataFusion
//! casts it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use ::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use ::parquet::arrow::parquet_to_arrow_schema;
use ::parquet::basic::Type as PhysicalType;
use ::parquet::schema::types::SchemaDescriptor;
use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::datasource::physical_plan::parquet::{Int96Coercer, apply_file_schema_type_coercions};
use galatea_parquet::{ColumnShape, Lanes};
use rayon::prelude::*;

use super::column_bytes::{ColumnBytes, Piece, read_pieces};
use super::column_shape::{column_shape, only_dictionary_pages};
use super::files::TableFiles;
use super::values::{adapted, decode};
use crate::damage::contained;
use crate::decode::plain_type;
use crate::encode::LocalChunk;
use crate::error::{Result, StoreError};
use crate::ingest::ChunkEncoder;
use crate::load_report::HostReason;
use crate::load_steps::{LoadStep, StepClock};
use crate::page_decoder::{PageDecoder, Side};
use crate::version::{OpenFile, RowGroups};

/// The timestamp type for INT96 columns.
#[derive(Debug, Clone)]
pub(super) struct Int96 {
    pub(super) unit: TimeUnit,
    pub(super) zone: Option<Arc<str>>,
}

/// The way one column is read from one file.
#[derive(Debug)]
pub(super) enum ColumnReader {
    /// The file does not have the column.
    Null,
    /// The same value in every row.
    Constant(ScalarValue),
    Stored {
        /// Index among the file's top-level fields.
        root: usize,
        /// Index among the file's leaf columns.
        leaf: usize,
        metadata: ArrowReaderMetadata,
        /// Like `metadata`, but returning an Arrow dictionary; for strings.
        dictionary: Option<ArrowReaderMetadata>,
        /// The column's shape, if the device decodes it to the same values.
        shape: Option<ColumnShape>,
        /// Whether the locations of pages are known for all row groups that are read in part.
        located: bool,
    },
}

/// The bytes of a column of a chunk: for each run, the pieces of each row group; `None` if the run was not
/// fetched.
pub(super) type Fetched = Vec<Option<Vec<Vec<Piece>>>>;

/// A column of consecutive chunks, which one thread or one lane of the device decodes.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub(super) chunks: Range<usize>,
    /// Number of the column in the load.
    pub(super) column: usize,
}

/// The columns of a load, in all files.
pub(super) struct Readers {
    pub(super) row_groups: Arc<RowGroups>,
    /// By column, then file.
    pub(super) columns: Vec<Vec<ColumnReader>>,
    pub(super) fields: Vec<Field>,
}

impl Readers {
    /// Finds columns (indices into the table's schema) in every file.
    pub(super) fn new(
        files: &TableFiles,
        row_groups: &Arc<RowGroups>,
        columns: &[usize],
        int96: Option<&Int96>,
    ) -> Result<Self> {
        let schemas = row_groups
            .files
            .iter()
            .map(|file| file_schema(file, &files.file_schema, int96))
            .collect::<Result<Vec<_>>>()?;
        let in_files = files.file_schema.fields().len();
        let readers = columns.iter().map(|index| {
            let of_column =
                row_groups
                    .files
                    .iter()
                    .enumerate()
                    .zip(&schemas)
                    .map(|((number, file), schema)| {
                        if let Some(partition) = index.checked_sub(in_files) {
                            let value = file.source.partition_values.get(partition).cloned();
                            return value.map(ColumnReader::Constant).ok_or_else(|| {
                                StoreError::UnsupportedSource {
                                    table: file.source.name(),
                                    reason: "it comes without values of the partition columns".to_owned(),
                                }
                            });
                        }
                        reader((row_groups, number), file, schema, files.schema.field(*index))
                    });
            of_column.collect::<Result<Vec<_>>>()
        });
        let fields = columns.iter().map(|index| files.schema.field(*index).clone());
        Ok(Self {
            row_groups: Arc::clone(row_groups),
            columns: readers.collect::<Result<Vec<_>>>()?,
            fields: fields.collect(),
        })
    }

    /// Units of work: a column of consecutive chunks, in the order of their chunks. There are enough of them
    /// for all lanes of the device.
    pub(super) fn units(&self, decoder: Option<&PageDecoder>) -> Vec<Unit> {
        let chunks = self.row_groups.chunks.len();
        let share = (chunks * self.columns.len()).div_ceil(Lanes::LIMIT);
        let mut units = Vec::new();
        for column in 0..self.columns.len() {
            let mut start = 0;
            while start < chunks {
                let together = match decoder.filter(|_| self.is_stored(start, column)) {
                    Some(decoder) => decoder.together(&self.size(start, column)).min(share),
                    None => 1,
                };
                let most = (start + together).min(chunks);
                let end = (start + 1..most).find(|chunk| !self.is_stored(*chunk, column));
                let end = end.unwrap_or(most);
                units.push(Unit {
                    chunks: start..end,
                    column,
                });
                start = end;
            }
        }
        units.sort_by_key(|unit| (unit.chunks.start, unit.column));
        units
    }

    /// Decodes and encodes a unit: on the device, or on the host. `fetched` has the bytes of each chunk.
    pub(super) fn encode(
        &self,
        encoder: &ChunkEncoder,
        unit: &Unit,
        fetched: Vec<Fetched>,
    ) -> Result<Vec<LocalChunk>> {
        if !self.is_stored(unit.chunks.start, unit.column) {
            return self.encode_on_host(encoder, unit, fetched, None);
        }
        let counts = encoder.meter.counts();
        let count = |reason| unit.chunks.clone().for_each(|_| counts.count(reason));
        let Some(decoder) = encoder.store.page_decoder() else {
            count(Some(HostReason::NoDevice));
            return self.encode_on_host(encoder, unit, fetched, None);
        };
        let bytes = (unit.chunks.clone().into_par_iter().zip(fetched))
            .map(|(chunk, fetched)| self.read_all(&counts.clock, (chunk, unit.column), fetched))
            .collect::<Result<Vec<_>>>()?;
        let refused = match self.encode_on_device(&decoder, encoder, unit, &bytes)? {
            Ok(encoded) => {
                count(None);
                return (encoded.into_iter().zip(bytes))
                    .map(|(encoded, bytes)| encoder.account(encoded, length(&bytes)))
                    .collect();
            }
            Err(refused) => refused,
        };
        count(Some(refused.reason));
        let fetched = bytes
            .into_iter()
            .map(|bytes| bytes.into_iter().map(Some).collect());
        self.encode_on_host(encoder, unit, fetched.collect(), Some(&decoder))
            .map_err(|error| refused.explained(error))
    }

    /// Decodes and encodes a unit on the host. The times are prices for the decoder.
    fn encode_on_host(
        &self,
        encoder: &ChunkEncoder,
        unit: &Unit,
        fetched: Vec<Fetched>,
        decoder: Option<&PageDecoder>,
    ) -> Result<Vec<LocalChunk>> {
        let chunks = unit.chunks.clone().into_par_iter().zip(fetched);
        chunks
            .map(|(chunk, fetched)| {
                let started = Instant::now();
                let encoded = self.encode_chunk(encoder, chunk, unit.column, fetched)?;
                if let Some(decoder) = decoder {
                    decoder.measured(Side::Host, &self.size(chunk, unit.column), started.elapsed());
                }
                Ok(encoded)
            })
            .collect()
    }

    /// Whether a file of a chunk has the column.
    fn is_stored(&self, chunk: usize, column: usize) -> bool {
        let mut runs = self.row_groups.chunks[chunk].iter();
        runs.any(|run| matches!(self.columns[column][run.file], ColumnReader::Stored { .. }))
    }

    /// The column chunks of each run of a chunk.
    fn read_all(
        &self,
        clock: &StepClock,
        (chunk, column): (usize, usize),
        fetched: Fetched,
    ) -> Result<Vec<Vec<Vec<Piece>>>> {
        let runs = self.row_groups.chunks[chunk].iter().zip(fetched);
        runs.map(|(run, fetched)| match fetched {
            Some(bytes) => Ok(bytes),
            None => {
                let file = &self.row_groups.files[run.file];
                let ranges = self.ranges(run, column).into_iter();
                let read = || ranges.map(|ranges| read_pieces(file, ranges)).collect();
                clock.time(LoadStep::Read, read)
            }
        })
        .collect()
    }

    /// Decodes one column of one chunk on the host, and encodes it.
    fn encode_chunk(
        &self,
        encoder: &ChunkEncoder,
        chunk: usize,
        column: usize,
        fetched: Fetched,
    ) -> Result<LocalChunk> {
        if let Some(shape) = self.shape_of_indices(chunk, column) {
            encoder.cancellation.check()?;
            let clock = &encoder.meter.counts().clock;
            let bytes = self.read_all(clock, (chunk, column), fetched)?;
            let rows = clock.time(LoadStep::Decode, || {
                self.indexed_rows((chunk, column), &shape, &bytes)
            });
            let encoded = clock.time(LoadStep::Encode, || {
                encoder.encoders[column].encode_indexed(&rows?)
            });
            return match encoded {
                Some(encoded) => encoder.account(encoded, length(&bytes)),
                None => self.encode_values(encoder, (chunk, column), bytes.into_iter().map(Some).collect()),
            };
        }
        self.encode_values(encoder, (chunk, column), fetched)
    }

    /// Decodes the values of one column of one chunk with the parquet crate, and encodes them.
    fn encode_values(
        &self,
        encoder: &ChunkEncoder,
        (chunk, column): (usize, usize),
        fetched: Fetched,
    ) -> Result<LocalChunk> {
        let mut arrays: Vec<ArrayRef> = Vec::new();
        let mut bytes_read = 0;
        let clock = &encoder.meter.counts().clock;
        for (run, fetched) in self.row_groups.chunks[chunk].iter().zip(fetched) {
            let file = &self.row_groups.files[run.file];
            let field = &self.fields[column];
            match &self.columns[column][run.file] {
                ColumnReader::Null => arrays.push(new_null_array(field.data_type(), run.rows)),
                ColumnReader::Constant(value) => arrays.push(value.to_array_of_size(run.rows)?),
                ColumnReader::Stored {
                    root,
                    leaf,
                    metadata,
                    dictionary,
                    ..
                } => {
                    let mut fetched = fetched.map(Vec::into_iter);
                    let ranges = self.ranges(run, column);
                    for (group, ranges) in run.row_groups.clone().zip(ranges) {
                        encoder.cancellation.check()?;
                        bytes_read += ranges.iter().map(|range| range.end - range.start).sum::<u64>();
                        let pieces = match fetched.as_mut().and_then(Iterator::next) {
                            Some(pieces) => pieces,
                            None => clock.time(LoadStep::Read, || read_pieces(file, ranges))?,
                        };
                        let source = ColumnBytes {
                            pieces,
                            file_size: file.source.meta.size,
                        };
                        let pages = file.metadata.row_group(group).column(*leaf);
                        let metadata = dictionary
                            .as_ref()
                            .filter(|_| only_dictionary_pages(pages))
                            .unwrap_or(metadata);
                        // The parquet crate may panic on damaged pages.
                        let partial = self.row_groups.partial.get(&(run.file, group));
                        let decode = || contained(|| decode(source, metadata, (group, partial), *root));
                        let decoded = clock
                            .time(LoadStep::Decode, decode)
                            .unwrap_or_else(|panic| Err(panic.into()))
                            .map_err(|error| file.corrupt(Some(field.name()), Some(group), error))?;
                        let rows: usize = decoded.iter().map(Array::len).sum();
                        let expected = self.row_groups.rows_of(run.file, group);
                        if rows != expected {
                            let text = format!("{rows} rows instead of {expected}");
                            return Err(file.corrupt(Some(field.name()), Some(group), text));
                        }
                        for array in decoded {
                            arrays.push(adapted(file, array, field)?);
                        }
                    }
                }
            }
        }
        let encoded = clock.time(LoadStep::Encode, || encoder.encoders[column].encode(&arrays));
        encoder.account(encoded?, bytes_read)
    }
}

/// Bytes of the column chunks of each run.
fn length(bytes: &[Vec<Vec<Piece>>]) -> u64 {
    let pieces = bytes.iter().flatten().flatten();
    pieces.map(|piece| piece.bytes.len() as u64).sum()
}

/// The schema with which DataFusion would read a file, if the table's files have the columns of `table`.
pub(super) fn file_schema(file: &OpenFile, table: &Schema, int96: Option<&Int96>) -> Result<Schema> {
    let metadata = file.metadata.file_metadata();
    let mut schema = parquet_to_arrow_schema(metadata.schema_descr(), metadata.key_value_metadata())
        .map_err(|error| file.corrupt(None, None, error))?;
    if let Some(coerced) = apply_file_schema_type_coercions(table, &schema) {
        schema = coerced;
    }
    if let Some(Int96 { unit, zone }) = int96 {
        let coerced = Int96Coercer::new(metadata.schema_descr(), &schema, unit).with_timezone(zone.clone());
        schema = coerced.coerce().unwrap_or(schema);
    }
    Ok(schema)
}

/// The number of the leaf column of a top-level field; `None` if the field is nested.
pub(super) fn leaf_of(descriptor: &SchemaDescriptor, root: usize) -> Option<usize> {
    let mut leaves =
        (0..descriptor.num_columns()).filter(|leaf| descriptor.get_column_root_idx(*leaf) == root);
    let leaf = leaves.next()?;
    leaves.next().is_none().then_some(leaf)
}

/// The reader of a column of the table in a file. `number`: the number of the file in `row_groups`.
fn reader(
    (row_groups, number): (&RowGroups, usize),
    file: &OpenFile,
    schema: &Schema,
    field: &Field,
) -> Result<ColumnReader> {
    let Some((root, stored)) = schema.column_with_name(field.name()) else {
        if field.is_nullable() {
            return Ok(ColumnReader::Null);
        }
        return Err(StoreError::SchemaMismatch {
            file: file.source.name(),
            column: field.name().clone(),
            table_type: field.data_type().clone(),
            reason: "the file has no such column, and it is not nullable".to_owned(),
        });
    };
    let descriptor = file.metadata.file_metadata().schema_descr();
    let Some(leaf) = leaf_of(descriptor, root) else {
        return Err(StoreError::SchemaMismatch {
            file: file.source.name(),
            column: field.name().clone(),
            table_type: field.data_type().clone(),
            reason: "the file's column is nested".to_owned(),
        });
    };
    let physical = descriptor.column(leaf).physical_type();
    let mut partial = row_groups.partial.keys().filter(|(of, _)| *of == number);
    let pages = file
        .pages
        .as_ref()
        .filter(|pages| partial.all(|(_, group)| pages.locations.contains_key(&(*group, leaf))));
    let of_file = pages.map_or(&file.metadata, |pages| &pages.metadata);
    let metadata = |data_type: &DataType| {
        let fields = schema
            .fields()
            .iter()
            .enumerate()
            .map(|(index, field)| match index == root {
                true => Arc::new(field.as_ref().clone().with_data_type(data_type.clone())),
                false => Arc::clone(field),
            });
        let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone());
        ArrowReaderMetadata::try_new(
            Arc::clone(of_file),
            ArrowReaderOptions::new().with_schema(Arc::new(schema)),
        )
        .map_err(|error| file.corrupt(Some(field.name()), None, error))
    };
    let data_type = cheapest(stored.data_type(), field.data_type(), physical);
    let dictionary = match plain_type(&data_type) {
        DataType::Utf8View => Some(DataType::Utf8),
        DataType::BinaryView => Some(DataType::Binary),
        _ => None,
    };
    let dictionary =
        dictionary.map(|values| DataType::Dictionary(Box::new(DataType::Int32), Box::new(values)));
    Ok(ColumnReader::Stored {
        root,
        leaf,
        metadata: metadata(&data_type)?,
        dictionary: dictionary.as_ref().map(metadata).transpose()?,
        shape: column_shape(&descriptor.column(leaf), stored.data_type(), field.data_type()),
        located: pages.is_some(),
    })
}

/// The type as which a column is read: the cheapest to encode that has the same values.
fn cheapest(stored: &DataType, table: &DataType, physical: PhysicalType) -> DataType {
    match (stored, plain_type(table)) {
        (DataType::Decimal128(precision, scale), DataType::Decimal128(_, _))
            if *precision <= 18
                && stored == table
                && matches!(physical, PhysicalType::INT32 | PhysicalType::INT64) =>
        {
            DataType::Decimal64(*precision, *scale)
        }
        (DataType::Utf8 | DataType::LargeUtf8, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => {
            DataType::Utf8View
        }
        (
            DataType::Binary | DataType::LargeBinary,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView,
        ) => DataType::BinaryView,
        _ => stored.clone(),
    }
}
