//! Columns of Parquet files.
//!
//! The unit of work is one column of one chunk: its bytes are read in one piece per row group, decoded by the
//! parquet crate and encoded, all on one thread, so as many such units run as there are cores and none waits
//! for another. Object stores are read ahead of the threads by asynchronous requests.
//!
//! Columns are asked of the parquet crate in the form that costs least to encode: decimals of up to 18 digits
//! as 64-bit integers, strings as views, and strings whose pages are all dictionary pages as Arrow
//! dictionaries, which need not be hashed row by row. Where a file's column is not of the table's type it is
//! cast as DataFusion casts it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use ::parquet::arrow::{ProjectionMask, parquet_to_arrow_schema};
use ::parquet::basic::{Encoding as PageEncoding, Type as PhysicalType};
use ::parquet::file::metadata::ColumnChunkMetaData;
use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema};
use bytes::Bytes;
use datafusion::common::ScalarValue;
use datafusion::datasource::physical_plan::parquet::{Int96Coercer, apply_file_schema_type_coercions};
use futures::StreamExt;
use object_store::ObjectStore;

use super::column_bytes::ColumnBytes;
use super::layout::{Layout, OpenFile, Run};
use super::version::Version;
use super::{FileTable, ParquetFormat, reader_options};
use crate::column::Column;
use crate::encode::LocalChunk;
use crate::error::{MEMORY_LIMIT_KNOB, Result, StoreError};
use crate::ingest::{ChunkEncoder, EncodedChunk, Meter, on_pool};
use crate::source::{LoadHints, ProgressCallback};

/// Rows decoded into one array.
const BATCH_ROWS: usize = 1 << 20;
/// Units of work finished before their size says that all would not fit.
const UNITS_TO_JUDGE: usize = 8;

/// How one column is read from one file.
#[derive(Debug)]
enum ColumnReader {
    /// Not in the file.
    Null,
    /// The same value in every row.
    Constant(ScalarValue),
    Stored {
        /// Index among the file's top-level fields.
        root: usize,
        /// Index among the file's leaf columns.
        leaf: usize,
        metadata: ArrowReaderMetadata,
        /// As `metadata`, reading an Arrow dictionary; for text.
        dictionary: Option<ArrowReaderMetadata>,
    },
}

/// The columns of a load, in all files.
struct Readers {
    layout: Arc<Layout>,
    /// By column, then file.
    columns: Vec<Vec<ColumnReader>>,
    fields: Vec<Field>,
}

impl FileTable {
    pub(super) async fn load_parquet(
        &self,
        version: &Arc<Version>,
        format: &ParquetFormat,
        columns: &[usize],
        hints: &LoadHints,
        progress: Option<&ProgressCallback>,
    ) -> Result<Vec<Arc<Column>>> {
        let layout = version
            .layout
            .get_or_try_init(|| async { Layout::read(self, version.chunk_target).await.map(Arc::new) })
            .await?;
        let chunk_rows = version.chunk_rows.get_or_init(|| layout.chunk_rows()).clone();
        let limit = self.store.memory_limit();
        if let Some(needed) = version.known_too_large(columns, limit) {
            return Err(self.too_large(needed, 0));
        }
        let rows = chunk_rows.iter().map(|rows| u64::from(*rows)).sum();
        let schema = self.projected(columns)?;
        let meter = Meter::new(progress.cloned(), Some(rows), columns.len());
        let dictionary = |index: usize| hints.dictionary.contains(&columns[index]);
        let encoder = ChunkEncoder::new(&self.store, &self.name, &schema, dictionary, meter)?;
        let _cancel = encoder.cancellation.on_drop();
        let readers = Arc::new(self.readers(layout, format, columns)?);

        let units =
            (0..layout.chunks.len()).flat_map(|chunk| (0..columns.len()).map(move |column| (chunk, column)));
        let (count, total_cells) = (layout.chunks.len() * columns.len(), rows * columns.len() as u64);
        let mut running = futures::stream::iter(units)
            .map(|(chunk, column)| {
                let (encoder, readers) = (Arc::clone(&encoder), Arc::clone(&readers));
                async move {
                    let fetched = self.fetch(&readers, chunk, column).await?;
                    let encoded = on_pool(move || readers.encode(&encoder, chunk, column, fetched)).await?;
                    Ok::<_, StoreError>((chunk, column, encoded))
                }
            })
            .buffer_unordered(2 * rayon::current_num_threads());
        let mut chunks: Vec<Vec<Option<LocalChunk>>> = chunk_rows
            .iter()
            .map(|_| (0..columns.len()).map(|_| None).collect())
            .collect();
        let (mut done, mut cells, mut bytes) = (0, 0, 0);
        while let Some(unit) = running.next().await {
            let (chunk, column, encoded) = match unit {
                Err(StoreError::StoreLimit { needed, used, .. }) => {
                    let (cells, bytes) = encoder.meter.totals();
                    let room = limit.saturating_sub(used);
                    let needed = estimate(bytes, cells, total_cells).max(needed).max(room + 1);
                    version.refuse(columns, needed);
                    return Err(self.too_large(needed, used));
                }
                unit => unit?,
            };
            done += 1;
            cells += u64::from(encoded.rows);
            bytes += encoded.size();
            chunks[chunk][column] = Some(encoded);
            let estimate = estimate(bytes, cells, total_cells);
            if done >= UNITS_TO_JUDGE.max(count / 16) && estimate > limit + limit / 4 {
                version.refuse(columns, estimate);
                return Err(self.too_large(estimate, 0));
            }
        }
        drop(running);
        let chunks = chunks.into_iter().zip(chunk_rows).map(|(columns, rows)| {
            let columns = columns.into_iter().collect::<Option<Vec<_>>>();
            let missing = || StoreError::Internal("a column of a chunk was not encoded".to_owned());
            Ok(EncodedChunk {
                rows,
                columns: columns.ok_or_else(missing)?,
            })
        });
        let chunks = chunks.collect::<Result<Vec<_>>>()?;
        let finisher = Arc::clone(&encoder);
        on_pool(move || finisher.finish(chunks)).await
    }

    pub(super) fn too_large(&self, needed: u64, used: u64) -> StoreError {
        StoreError::StoreLimit {
            table: self.name.clone(),
            needed,
            used,
            limit: self.store.memory_limit(),
            knob: MEMORY_LIMIT_KNOB,
        }
    }

    /// Finds the columns in every file.
    fn readers(&self, layout: &Arc<Layout>, format: &ParquetFormat, columns: &[usize]) -> Result<Readers> {
        let schemas = layout
            .files
            .iter()
            .map(|file| self.file_schema(file, format))
            .collect::<Result<Vec<_>>>()?;
        let in_files = self.file_schema.fields().len();
        let readers = columns.iter().map(|index| {
            let files = layout.files.iter().zip(&schemas).map(|(file, schema)| {
                if let Some(partition) = index.checked_sub(in_files) {
                    let value = file.source.partition_values.get(partition).cloned();
                    return value
                        .map(ColumnReader::Constant)
                        .ok_or_else(|| StoreError::UnsupportedSource {
                            table: file.source.name(),
                            reason: "it comes without values of the partition columns".to_owned(),
                        });
                }
                self.reader(file, schema, self.schema.field(*index))
            });
            files.collect::<Result<Vec<_>>>()
        });
        Ok(Readers {
            layout: Arc::clone(layout),
            columns: readers.collect::<Result<Vec<_>>>()?,
            fields: columns
                .iter()
                .map(|index| self.schema.field(*index).clone())
                .collect(),
        })
    }

    /// The schema DataFusion would read a file with.
    fn file_schema(&self, file: &OpenFile, format: &ParquetFormat) -> Result<Schema> {
        let metadata = file.metadata.file_metadata();
        let mut schema = parquet_to_arrow_schema(metadata.schema_descr(), metadata.key_value_metadata())
            .map_err(|error| file.corrupt(None, None, error))?;
        if let Some(coerced) = apply_file_schema_type_coercions(&self.file_schema, &schema) {
            schema = coerced;
        }
        if let Some((unit, zone)) = &format.int96 {
            let coerced =
                Int96Coercer::new(metadata.schema_descr(), &schema, unit).with_timezone(zone.clone());
            schema = coerced.coerce().unwrap_or(schema);
        }
        Ok(schema)
    }

    /// How a column of the table is read from a file.
    fn reader(&self, file: &OpenFile, schema: &Schema, field: &Field) -> Result<ColumnReader> {
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
        let leaves =
            (0..descriptor.num_columns()).filter(|leaf| descriptor.get_column_root_idx(*leaf) == root);
        let [leaf] = leaves.collect::<Vec<_>>()[..] else {
            return Err(StoreError::SchemaMismatch {
                file: file.source.name(),
                column: field.name().clone(),
                table_type: field.data_type().clone(),
                reason: "the file's column is nested".to_owned(),
            });
        };
        let physical = descriptor.column(leaf).physical_type();
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
            ArrowReaderMetadata::try_new(Arc::clone(&file.metadata), reader_options(Arc::new(schema)))
                .map_err(|error| file.corrupt(Some(field.name()), None, error))
        };
        let data_type = cheapest(stored.data_type(), field.data_type(), physical);
        let dictionary = match value_type(&data_type) {
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
        })
    }

    /// Reads the bytes of a column of a chunk, where the file is not local; local files are read by the
    /// thread that decodes.
    async fn fetch(&self, readers: &Readers, chunk: usize, column: usize) -> Result<Vec<Option<Vec<Bytes>>>> {
        let mut fetched = Vec::new();
        for run in &readers.layout.chunks[chunk] {
            let file = &readers.layout.files[run.file];
            let ranges = readers.ranges(run, column);
            if file.source.path.is_some() || ranges.is_empty() {
                fetched.push(None);
                continue;
            }
            let ranges: Vec<_> = ranges
                .into_iter()
                .map(|(start, length)| start..start + length)
                .collect();
            let bytes = self.objects.get_ranges(&file.source.meta.location, &ranges).await;
            let bytes = bytes.map_err(|error| StoreError::Io {
                file: file.source.name(),
                source: error.into(),
            })?;
            fetched.push(Some(bytes));
        }
        Ok(fetched)
    }
}

/// Bytes that all cells need, when some have been encoded.
fn estimate(bytes: u64, cells: u64, total_cells: u64) -> u64 {
    let estimate = u128::from(bytes) * u128::from(total_cells) / u128::from(cells.max(1));
    u64::try_from(estimate).unwrap_or(u64::MAX)
}

/// The type to read a column as: what costs least to encode and is the same values.
fn cheapest(stored: &DataType, table: &DataType, physical: PhysicalType) -> DataType {
    match (stored, value_type(table)) {
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

fn value_type(data_type: &DataType) -> &DataType {
    crate::decode::plain_type(data_type)
}

impl OpenFile {
    fn corrupt(
        &self,
        column: Option<&String>,
        row_group: Option<usize>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> StoreError {
        StoreError::CorruptFile {
            file: self.source.name(),
            column: column.cloned(),
            row_group,
            source: source.into(),
        }
    }
}

impl Readers {
    /// Start and length of a column's bytes in each row group of a run.
    fn ranges(&self, run: &Run, column: usize) -> Vec<(u64, u64)> {
        let ColumnReader::Stored { leaf, .. } = &self.columns[column][run.file] else {
            return Vec::new();
        };
        let metadata = &self.layout.files[run.file].metadata;
        run.row_groups
            .clone()
            .map(|group| byte_range(metadata.row_group(group).column(*leaf)))
            .collect()
    }

    /// Decodes and encodes one column of one chunk.
    fn encode(
        &self,
        encoder: &ChunkEncoder,
        chunk: usize,
        column: usize,
        fetched: Vec<Option<Vec<Bytes>>>,
    ) -> Result<LocalChunk> {
        let mut arrays: Vec<ArrayRef> = Vec::new();
        let mut bytes_read = 0;
        for (run, fetched) in self.layout.chunks[chunk].iter().zip(fetched) {
            let file = &self.layout.files[run.file];
            let field = &self.fields[column];
            match &self.columns[column][run.file] {
                ColumnReader::Null => arrays.push(new_null_array(field.data_type(), run.rows)),
                ColumnReader::Constant(value) => arrays.push(value.to_array_of_size(run.rows)?),
                ColumnReader::Stored {
                    root,
                    leaf,
                    metadata,
                    dictionary,
                } => {
                    let mut fetched = fetched.map(Vec::into_iter);
                    let ranges = self.ranges(run, column);
                    for (group, range) in run.row_groups.clone().zip(ranges) {
                        encoder.cancellation.check()?;
                        let bytes = match fetched.as_mut().and_then(Iterator::next) {
                            Some(bytes) => bytes,
                            None => file.read(range)?,
                        };
                        bytes_read += range.1;
                        let source = ColumnBytes {
                            start: range.0,
                            bytes,
                            file_size: file.source.meta.size,
                        };
                        let pages = file.metadata.row_group(group).column(*leaf);
                        let metadata = dictionary
                            .as_ref()
                            .filter(|_| only_dictionary_pages(pages))
                            .unwrap_or(metadata);
                        // The parquet crate may panic on damaged pages.
                        let decoded =
                            catch_unwind(AssertUnwindSafe(|| decode(source, metadata, group, *root)))
                                .unwrap_or_else(|_| Err("the decoder panicked".into()))
                                .map_err(|error| file.corrupt(Some(field.name()), Some(group), error))?;
                        let rows: usize = decoded.iter().map(Array::len).sum();
                        let expected = file.metadata.row_group(group).num_rows().max(0) as usize;
                        if rows != expected {
                            let text = format!("{rows} rows where the footer says {expected}");
                            return Err(file.corrupt(Some(field.name()), Some(group), text));
                        }
                        for array in decoded {
                            arrays.push(file.adapt(array, field)?);
                        }
                    }
                }
            }
        }
        encoder.account(encoder.encoders[column].encode(&arrays)?, bytes_read)
    }
}

/// Whether the values of a column chunk are all in its dictionary page.
fn only_dictionary_pages(column: &ColumnChunkMetaData) -> bool {
    column.dictionary_page_offset().is_some()
        && column.page_encoding_stats_mask().is_some_and(|mask| {
            mask.is_only(PageEncoding::RLE_DICTIONARY) || mask.is_only(PageEncoding::PLAIN_DICTIONARY)
        })
}

/// Start and length of a column chunk, its dictionary page included. Lengths below zero are read as nothing.
fn byte_range(column: &ColumnChunkMetaData) -> (u64, u64) {
    let start = column
        .dictionary_page_offset()
        .unwrap_or_else(|| column.data_page_offset());
    (
        u64::try_from(start).unwrap_or(0),
        u64::try_from(column.compressed_size()).unwrap_or(0),
    )
}

fn decode(
    source: ColumnBytes,
    metadata: &ArrowReaderMetadata,
    row_group: usize,
    root: usize,
) -> Result<Vec<ArrayRef>, Box<dyn std::error::Error + Send + Sync>> {
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(source, metadata.clone())
        .with_row_groups(vec![row_group])
        .with_projection(ProjectionMask::roots(metadata.parquet_schema(), [root]))
        .with_batch_size(BATCH_ROWS)
        .build()?;
    reader.map(|batch| Ok(Arc::clone(batch?.column(0)))).collect()
}

impl OpenFile {
    /// Reads a range of a local file.
    fn read(&self, (start, length): (u64, u64)) -> Result<Bytes> {
        let error = |error: std::io::Error| StoreError::Io {
            file: self.source.name(),
            source: error.into(),
        };
        let Some(path) = &self.source.path else {
            return Err(StoreError::Io {
                file: self.source.name(),
                source: "the object store gave fewer ranges than it was asked for".into(),
            });
        };
        // A footer may lie about lengths; what is not there is missed by the decoder, which says where.
        let length = length.min(self.source.meta.size.saturating_sub(start));
        let mut file = File::open(path).map_err(error)?;
        file.seek(SeekFrom::Start(start)).map_err(error)?;
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(length as usize)
            .map_err(|refused| error(std::io::Error::new(std::io::ErrorKind::OutOfMemory, refused)))?;
        file.take(length).read_to_end(&mut bytes).map_err(error)?;
        Ok(bytes.into())
    }

    /// The array as the encoder takes it: of the table's type, but for layouts of the same values.
    fn adapt(&self, array: ArrayRef, field: &Field) -> Result<ArrayRef> {
        let (from, to) = (array.data_type(), field.data_type());
        let same = match (value_type(from), value_type(to)) {
            (
                DataType::Utf8 | DataType::Utf8View,
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View,
            )
            | (
                DataType::Binary | DataType::BinaryView,
                DataType::Binary | DataType::LargeBinary | DataType::BinaryView,
            ) => true,
            (DataType::Decimal64(_, scale), DataType::Decimal128(_, table_scale)) => scale == table_scale,
            _ => from == to,
        };
        if same {
            return Ok(array);
        }
        let options = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        cast_with_options(&array, to, &options).map_err(|error| StoreError::SchemaMismatch {
            file: self.source.name(),
            column: field.name().clone(),
            table_type: to.clone(),
            reason: error.to_string(),
        })
    }
}
