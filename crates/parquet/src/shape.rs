//! The columns that the device decodes, and their form.

use galatea_kernels::{ParquetEncoding, ParquetForm, ParquetOrder};
use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::schema::types::ColumnDescriptor;

use crate::decompress::Route;
use crate::error::Unsupported;

/// The decoded form of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// Values of [`ParquetForm::width`] bytes.
    Fixed {
        /// Conversion from the file.
        form: ParquetForm,
        /// Order of the values.
        order: ParquetOrder,
    },
    /// Byte strings.
    Strings {
        /// Whether they have to be UTF-8.
        utf8: bool,
    },
}

/// The shape of a column: its physical type in the file, and its decoded form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnShape {
    /// The decoded form.
    pub kind: ValueKind,
    /// Whether values may be NULL.
    pub nullable: bool,
    /// Physical type in the file.
    pub physical: Type,
    /// Bytes of a PLAIN value; 0: byte arrays, each with its length.
    pub value_bytes: u32,
    /// Nanoseconds of a unit of decoded INT96.
    pub unit: u64,
    /// Limits of the type, if it is narrower than the decoded integers.
    pub limits: Option<(i64, i64)>,
}

/// Whether the logical type is a decimal, unsigned, a half or a string.
struct Logical {
    decimal: bool,
    /// Bits of an unsigned integer; 0 for other types.
    unsigned: u32,
    /// Bits of a signed integer of a narrower type than the physical one; else 0.
    narrow: u32,
    half: bool,
    utf8: bool,
}

impl Logical {
    fn of(column: &ColumnDescriptor) -> Self {
        let converted = column.converted_type();
        let logical = column.logical_type_ref();
        let (unsigned, narrow) = match (logical, converted) {
            (Some(LogicalType::Integer(integer)), _) if !integer.is_signed => (integer.bit_width as u32, 0),
            (Some(LogicalType::Integer(integer)), _) if integer.bit_width < 32 => {
                (0, integer.bit_width as u32)
            }
            (None, ConvertedType::UINT_8) => (8, 0),
            (None, ConvertedType::UINT_16) => (16, 0),
            (None, ConvertedType::UINT_32) => (32, 0),
            (None, ConvertedType::UINT_64) => (64, 0),
            (None, ConvertedType::INT_8) => (0, 8),
            (None, ConvertedType::INT_16) => (0, 16),
            _ => (0, 0),
        };
        let either = |is_logical: fn(&LogicalType) -> bool, kinds: &[ConvertedType]| match logical {
            Some(logical) => is_logical(logical),
            None => kinds.contains(&converted),
        };
        Self {
            decimal: either(
                |logical| matches!(logical, LogicalType::Decimal(_)),
                &[ConvertedType::DECIMAL],
            ),
            unsigned,
            narrow,
            half: either(|logical| matches!(logical, LogicalType::Float16), &[]),
            utf8: either(
                |logical| matches!(logical, LogicalType::String | LogicalType::Json),
                &[ConvertedType::UTF8, ConvertedType::JSON],
            ),
        }
    }

    fn limits(&self) -> Option<(i64, i64)> {
        match (self.unsigned, self.narrow) {
            (bits @ (8 | 16), _) => Some((0, (1 << bits) - 1)),
            (_, bits @ (8 | 16)) => Some((-1 << (bits - 1), (1 << (bits - 1)) - 1)),
            _ => None,
        }
    }
}

impl ColumnShape {
    /// The shape of a column of a file. INT96 is decoded to a number of units of `unit` nanoseconds.
    ///
    /// # Errors
    /// The column is nested, or its type has no device form.
    pub fn of(column: &ColumnDescriptor, unit: u64) -> Result<Self, Unsupported> {
        let (definition, repetition) = (column.max_def_level(), column.max_rep_level());
        if column.path().parts().len() != 1 || repetition > 0 || definition > 1 {
            return Err(Unsupported::Nested);
        }
        let logical = Logical::of(column);
        let fixed = |form, order| ValueKind::Fixed { form, order };
        let length = u32::try_from(column.type_length()).unwrap_or(0);
        let decimal = |bytes: u32| match (bytes, column.type_precision()) {
            // Byte arrays have any length.
            (1..=8, _) | (0, 1..=18) => Ok(fixed(ParquetForm::BigEndian64, ParquetOrder::Signed)),
            (9..=16, _) | (0, 19..=38) => Ok(fixed(ParquetForm::BigEndian128, ParquetOrder::Signed128)),
            _ => Err(Unsupported::Type),
        };
        let (kind, value_bytes) = match column.physical_type() {
            Type::BOOLEAN => (fixed(ParquetForm::Boolean, ParquetOrder::Byte), 1),
            Type::INT32 if logical.unsigned > 0 => (fixed(ParquetForm::Unsigned32, ParquetOrder::Signed), 4),
            Type::INT32 => (fixed(ParquetForm::Signed32, ParquetOrder::Signed), 4),
            Type::INT64 if logical.unsigned > 0 => (fixed(ParquetForm::Integer64, ParquetOrder::Unsigned), 8),
            Type::INT64 => (fixed(ParquetForm::Integer64, ParquetOrder::Signed), 8),
            Type::INT96 => (fixed(ParquetForm::Int96, ParquetOrder::Signed), 12),
            Type::FLOAT => (fixed(ParquetForm::Float, ParquetOrder::Float32), 4),
            Type::DOUBLE => (fixed(ParquetForm::Double, ParquetOrder::Float64), 8),
            Type::BYTE_ARRAY if logical.decimal => (decimal(0)?, 0),
            Type::BYTE_ARRAY => (ValueKind::Strings { utf8: logical.utf8 }, 0),
            Type::FIXED_LEN_BYTE_ARRAY if logical.decimal && length > 0 => (decimal(length)?, length),
            Type::FIXED_LEN_BYTE_ARRAY if logical.half && length == 2 => {
                (fixed(ParquetForm::Half, ParquetOrder::Float32), 2)
            }
            Type::FIXED_LEN_BYTE_ARRAY => return Err(Unsupported::Type),
        };
        Ok(Self {
            kind,
            nullable: definition == 1,
            physical: column.physical_type(),
            value_bytes,
            unit: unit.max(1),
            limits: logical.limits(),
        })
    }

    /// The encoding of a data page by its number in the format, if the format allows it for the type.
    pub(crate) fn encoding(&self, number: i32) -> Option<ParquetEncoding> {
        use Type::{BOOLEAN, BYTE_ARRAY, DOUBLE, FIXED_LEN_BYTE_ARRAY, FLOAT, INT32, INT64};
        match (number, self.physical) {
            (0, _) => Some(ParquetEncoding::Plain),
            // The older name of the same encoding.
            (2 | 8, physical) if physical != BOOLEAN => Some(ParquetEncoding::Dictionary),
            (3, BOOLEAN) => Some(ParquetEncoding::Rle),
            (5, INT32 | INT64) => Some(ParquetEncoding::DeltaBinaryPacked),
            (6, BYTE_ARRAY) => Some(ParquetEncoding::DeltaLengthByteArray),
            (7, BYTE_ARRAY | FIXED_LEN_BYTE_ARRAY) => Some(ParquetEncoding::DeltaByteArray),
            (9, INT32 | INT64 | FLOAT | DOUBLE | FIXED_LEN_BYTE_ARRAY) => {
                Some(ParquetEncoding::ByteStreamSplit)
            }
            _ => None,
        }
    }

    /// The least bytes of a dictionary value.
    pub(crate) fn least_bytes(&self) -> u32 {
        match self.value_bytes {
            0 => 4,
            bytes => bytes,
        }
    }
}

/// The reason why the device does not decode a column chunk, by its metadata. Pages may still have an
/// encoding that the metadata does not list.
#[must_use]
pub fn unsupported(chunk: &ColumnChunkMetaData) -> Option<Unsupported> {
    let shape = match ColumnShape::of(chunk.column_descr(), 1) {
        Ok(shape) => shape,
        Err(reason) => return Some(reason),
    };
    if chunk.crypto_metadata().is_some() {
        return Some(Unsupported::Encrypted);
    }
    if Route::of(chunk.compression()).is_none() {
        return Some(Unsupported::Codec);
    }
    let levels = 3;
    let numbers = chunk.encodings().map(|encoding| encoding as i32);
    numbers
        .filter(|number| *number != levels && shape.encoding(*number).is_none())
        .map(Unsupported::Encoding)
        .next()
}
