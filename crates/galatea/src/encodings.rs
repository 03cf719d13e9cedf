//! The encoding of each column, chosen by the measured size of a sample.
//!
//! A dictionary is preferred: its indices are the codes that the device stores. If few values repeat, it
//! holds most values once, and the pages hold an index in addition. Integers, dates and timestamps may then
//! be smaller as differences, floats and integers as split bytes, and strings with their lengths apart.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, Encoding};
use datafusion::parquet::errors::Result;
use datafusion::parquet::file::metadata::RowGroupMetaData;
use datafusion::parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use datafusion::parquet::schema::types::ColumnPath;
use std::fmt;
use std::sync::Arc;

/// Rows of a row group, and at most of a sample: those of a chunk of the store.
pub(crate) const GROUP_ROWS: usize = 1 << 20;

/// Pages of a column in a whole row group, if they have at most a MiB. A GPU decodes pages in parallel.
const PAGES: usize = 128;

/// The compression of pages unless another is named: a GPU decompresses it.
pub(crate) const COMPRESSION: Compression = Compression::SNAPPY;

/// A dictionary is used unless another encoding needs less than this share of its bytes.
const DICTIONARY_SHARE: f64 = 0.9;

/// The encoding of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColumnEncoding {
    /// Indices into a dictionary of the values, plain values where it is full.
    Dictionary,
    /// Values as they are.
    Plain,
    /// Packed differences of integers.
    Delta,
    /// The first bytes of all values, then the second bytes, and so on.
    SplitBytes,
    /// Packed lengths of strings, then their bytes.
    DeltaLength,
}

impl ColumnEncoding {
    /// The encodings for values of a type, the preferred one first.
    fn candidates(data_type: &DataType) -> &'static [Self] {
        use DataType as T;
        match data_type {
            // These are integers in the file.
            T::Int8
            | T::Int16
            | T::Int32
            | T::Int64
            | T::UInt8
            | T::UInt16
            | T::UInt32
            | T::UInt64
            | T::Date32
            | T::Time32(_)
            | T::Time64(_)
            | T::Timestamp(..)
            | T::Decimal32(..)
            | T::Decimal64(..)
            | T::Decimal128(..=18, _)
            | T::Decimal256(..=18, _) => &[Self::Dictionary, Self::Delta, Self::SplitBytes, Self::Plain],
            T::Float32 | T::Float64 => &[Self::Dictionary, Self::SplitBytes, Self::Plain],
            T::Utf8 | T::LargeUtf8 | T::Utf8View | T::Binary | T::LargeBinary | T::BinaryView => {
                &[Self::Dictionary, Self::DeltaLength, Self::Plain]
            }
            _ => &[],
        }
    }

    /// Adds the encoding of a column to the properties of a writer.
    fn apply(self, builder: WriterPropertiesBuilder, column: &str) -> WriterPropertiesBuilder {
        let path = ColumnPath::new(vec![column.to_owned()]);
        let encoding = match self {
            Self::Dictionary => return builder.set_column_dictionary_enabled(path, true),
            Self::Plain => Encoding::PLAIN,
            Self::Delta => Encoding::DELTA_BINARY_PACKED,
            Self::SplitBytes => Encoding::BYTE_STREAM_SPLIT,
            Self::DeltaLength => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        };
        builder
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, encoding)
    }
}

impl fmt::Display for ColumnEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dictionary => "dictionary",
            Self::Plain => "plain",
            Self::Delta => "delta",
            Self::SplitBytes => "split bytes",
            Self::DeltaLength => "delta lengths",
        })
    }
}

/// The encoding for a column with these values. `None` for types with one encoding, and for nested types:
/// their leaves have the writer's default.
pub(crate) fn choose(
    values: &[ArrayRef],
    field: &Field,
    codec: Compression,
) -> Result<Option<ColumnEncoding>> {
    let [first, others @ ..] = ColumnEncoding::candidates(field.data_type()) else {
        return Ok(None);
    };
    let (mut best, mut least) = (
        *first,
        size(values, field, *first, codec)? as f64 * DICTIONARY_SHARE,
    );
    for other in others {
        let size = size(values, field, *other, codec)? as f64;
        if size < least {
            (best, least) = (*other, size);
        }
    }
    Ok(Some(best))
}

/// Bytes of values in pages of an encoding.
fn size(values: &[ArrayRef], field: &Field, encoding: ColumnEncoding, codec: Compression) -> Result<i64> {
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    let builder = WriterProperties::builder().set_compression(codec);
    let properties = encoding.apply(builder, field.name()).build();
    let mut writer = ArrowWriter::try_new(std::io::sink(), Arc::clone(&schema), Some(properties))?;
    for values in values {
        writer.write(&RecordBatch::try_new(
            Arc::clone(&schema),
            vec![Arc::clone(values)],
        )?)?;
    }
    let written = writer.close()?;
    Ok(written
        .row_groups()
        .iter()
        .map(RowGroupMetaData::compressed_size)
        .sum())
}

/// The properties of a file that loads fast, with the encodings that are smallest for the first values of its
/// columns.
pub(crate) fn writer_properties(schema: &Schema, values: &[Vec<ArrayRef>]) -> Result<WriterProperties> {
    let columns = schema.fields().iter().zip(values);
    let encodings = columns.map(|(field, values)| choose(values, field, COMPRESSION));
    let encodings = encodings.collect::<Result<Vec<_>>>()?;
    Ok(apply(&encodings, schema, builder(COMPRESSION)).build())
}

/// Row groups and pages of a file that loads fast.
pub(crate) fn builder(compression: Compression) -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_data_page_row_count_limit(GROUP_ROWS / PAGES)
}

/// Adds the encodings of columns to the properties of a writer.
pub(crate) fn apply(
    encodings: &[Option<ColumnEncoding>],
    schema: &Schema,
    mut builder: WriterPropertiesBuilder,
) -> WriterPropertiesBuilder {
    for (encoding, field) in encodings.iter().zip(schema.fields()) {
        if let Some(encoding) = encoding {
            builder = encoding.apply(builder, field.name());
        }
    }
    builder
}
