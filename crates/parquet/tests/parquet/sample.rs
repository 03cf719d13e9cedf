//! Record batches of every type and pattern of NULLs, and files of them.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float16Array, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::datatypes::{Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::support::File;

/// The rows that are NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// The columns are not nullable.
    Forbidden,
    None,
    All,
    Alternating,
    Runs,
    Random,
}

impl Nulls {
    pub(crate) const ALL: [Self; 6] = [
        Self::Forbidden,
        Self::None,
        Self::All,
        Self::Alternating,
        Self::Runs,
        Self::Random,
    ];

    fn valid(self, row: usize, random: &mut SmallRng) -> bool {
        match self {
            Self::Forbidden | Self::None => true,
            Self::All => false,
            Self::Alternating => row.is_multiple_of(2),
            Self::Runs => (row / 77).is_multiple_of(2),
            Self::Random => random.random_bool(0.7),
        }
    }
}

/// Encodings of the columns of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encodings {
    Plain,
    Dictionary,
    /// DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY, RLE; PLAIN for others.
    Delta,
    /// DELTA_BYTE_ARRAY for strings and values of fixed length, BYTE_STREAM_SPLIT for numbers.
    Split,
}

impl Encodings {
    pub(crate) const ALL: [Self; 4] = [Self::Plain, Self::Dictionary, Self::Delta, Self::Split];
}

/// The parameters of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) rows: usize,
    pub(crate) nulls: Nulls,
    pub(crate) encodings: Encodings,
    pub(crate) version: WriterVersion,
    pub(crate) codec: Compression,
    /// Rows of a page.
    pub(crate) page_rows: usize,
    /// Rows of a row group.
    pub(crate) group_rows: usize,
    /// Bytes of a dictionary, after which pages have another encoding.
    pub(crate) dictionary_bytes: usize,
    pub(crate) seed: u64,
}

impl Sample {
    pub(crate) fn new(rows: usize, nulls: Nulls, encodings: Encodings) -> Self {
        Self {
            rows,
            nulls,
            encodings,
            version: WriterVersion::PARQUET_1_0,
            codec: Compression::UNCOMPRESSED,
            page_rows: 1 << 20,
            group_rows: 1 << 20,
            dictionary_bytes: 1 << 20,
            seed: 1,
        }
    }

    /// Columns of every type that the device decodes.
    pub(crate) fn batch(&self) -> RecordBatch {
        let mut random = SmallRng::seed_from_u64(self.seed);
        let valid: Vec<bool> = (0..self.rows)
            .map(|row| self.nulls.valid(row, &mut random))
            .collect();
        // Few different values, some runs, some extremes.
        let numbers: Vec<i64> = (0..self.rows)
            .map(|row| match random.random_range(0..4) {
                0 => random.random(),
                1 => random.random_range(-9..9),
                2 => row as i64 * 10,
                _ => (row / 40) as i64,
            })
            .collect();
        macro_rules! column {
            ($array:ty, $value:expr) => {{
                let value = $value;
                let cells = numbers.iter().zip(&valid);
                let cells = cells.map(|(number, valid)| valid.then(|| value(*number)));
                Arc::new(cells.collect::<$array>()) as ArrayRef
            }};
        }
        let decimal = |precision: u8, limit: i128| {
            let array = column!(Decimal128Array, |number: i64| i128::from(number) * 1_000_003
                % limit);
            let array = array.as_any().downcast_ref::<Decimal128Array>().unwrap().clone();
            Arc::new(array.with_precision_and_scale(precision, 2).unwrap()) as ArrayRef
        };
        let text = |number: i64| match number.rem_euclid(5) {
            0 => String::new(),
            1 => format!("prefix of {}", number % 100),
            2 => format!("größer {number} €"),
            _ => format!("{}", number % 7),
        };
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("boolean", column!(BooleanArray, |number: i64| number % 3 == 0)),
            ("i8", column!(Int8Array, |number: i64| number as i8)),
            ("i16", column!(Int16Array, |number: i64| number as i16)),
            ("i32", column!(Int32Array, |number: i64| number as i32)),
            ("i64", column!(Int64Array, |number: i64| number)),
            ("u8", column!(UInt8Array, |number: i64| number as u8)),
            ("u16", column!(UInt16Array, |number: i64| number as u16)),
            ("u32", column!(UInt32Array, |number: i64| number as u32)),
            ("u64", column!(UInt64Array, |number: i64| number as u64)),
            ("f16", column!(Float16Array, |number: i64| half(number))),
            (
                "f32",
                column!(Float32Array, |number: i64| f32::from_bits(number as u32)),
            ),
            ("f64", column!(Float64Array, |number: i64| number as f64 / 8.0)),
            (
                "date",
                column!(Date32Array, |number: i64| number as i32 % 100_000),
            ),
            ("time", column!(TimestampMicrosecondArray, |number: i64| number)),
            ("decimal5", decimal(5, 100_000)),
            ("decimal15", decimal(15, 1_000_000_000_000_000)),
            ("decimal25", decimal(25, 10_i128.pow(25))),
            ("decimal38", decimal(38, 10_i128.pow(37))),
            ("string", column!(StringArray, text)),
            (
                "binary",
                column!(BinaryArray, |number: i64| number.to_le_bytes()
                    [..number as usize % 8]
                    .to_vec()),
            ),
        ];
        let nullable = self.nulls != Nulls::Forbidden;
        let fields: Vec<Field> = columns
            .iter()
            .map(|(name, array)| Field::new(*name, array.data_type().clone(), nullable))
            .collect();
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
    }

    fn encoding(&self, column: &str) -> Option<Encoding> {
        let integer = matches!(
            column,
            "i8" | "i16"
                | "i32"
                | "i64"
                | "u8"
                | "u16"
                | "u32"
                | "u64"
                | "date"
                | "time"
                | "decimal5"
                | "decimal15"
        );
        match (self.encodings, column) {
            (Encodings::Plain | Encodings::Dictionary, _) => None,
            (Encodings::Delta, "boolean") => Some(Encoding::RLE),
            (Encodings::Delta, "string" | "binary") => Some(Encoding::DELTA_LENGTH_BYTE_ARRAY),
            (Encodings::Delta, "decimal25" | "decimal38" | "f16")
            | (Encodings::Split, "string" | "binary" | "decimal38") => Some(Encoding::DELTA_BYTE_ARRAY),
            (Encodings::Delta, _) => integer.then_some(Encoding::DELTA_BINARY_PACKED),
            (Encodings::Split, "boolean") => Some(Encoding::PLAIN),
            (Encodings::Split, _) => Some(Encoding::BYTE_STREAM_SPLIT),
        }
    }

    /// The encoding of the column's values.
    pub(crate) fn expected_encoding(&self, column: &str) -> Encoding {
        let is_fixed = matches!(column, "f16" | "decimal25" | "decimal38");
        let is_first_version = self.version == WriterVersion::PARQUET_1_0;
        match (self.encoding(column), column) {
            (Some(encoding), _) => encoding,
            (None, _) if self.encodings != Encodings::Dictionary => Encoding::PLAIN,
            // Booleans have no dictionaries. The writer has none for fixed lengths in the first version.
            (None, "boolean") if !is_first_version => Encoding::RLE,
            (None, "boolean") => Encoding::PLAIN,
            (None, _) if is_fixed && is_first_version => Encoding::PLAIN,
            (None, _) => Encoding::RLE_DICTIONARY,
        }
    }

    fn properties(&self, batch: &RecordBatch) -> WriterProperties {
        let mut properties = WriterProperties::builder()
            .set_writer_version(self.version)
            .set_compression(self.codec)
            .set_dictionary_enabled(self.encodings == Encodings::Dictionary)
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_write_page_header_statistics(true)
            .set_dictionary_page_size_limit(self.dictionary_bytes)
            .set_data_page_row_count_limit(self.page_rows)
            .set_write_batch_size(self.page_rows.min(1024))
            .set_max_row_group_row_count(Some(self.group_rows));
        if self.encodings == Encodings::Plain {
            properties = properties.set_encoding(Encoding::PLAIN);
        }
        for field in batch.schema().fields() {
            if let Some(encoding) = self.encoding(field.name()) {
                properties =
                    properties.set_column_encoding(ColumnPath::from(field.name().as_str()), encoding);
            }
        }
        properties.build()
    }

    /// The file.
    pub(crate) fn file(&self) -> File {
        let batch = self.batch();
        written(&batch, self.properties(&batch))
    }
}

fn half(number: i64) -> <arrow::datatypes::Float16Type as arrow::datatypes::ArrowPrimitiveType>::Native {
    <arrow::datatypes::Float16Type as arrow::datatypes::ArrowPrimitiveType>::Native::from_bits(number as u16)
}

/// A file of a batch.
pub(crate) fn written(batch: &RecordBatch, properties: WriterProperties) -> File {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    File::new(bytes).unwrap()
}
