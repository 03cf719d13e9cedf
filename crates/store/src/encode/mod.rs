//! From Arrow arrays to encoded columns, in two steps.
//!
//! ```text
//!  chunk 0 arrays ──encode──► LocalChunk ─┐           ┌─► slab: data, offsets, validity
//!  chunk 1 arrays ──encode──► LocalChunk ─┼──plan ────┼─► ...        (in parallel)
//!  chunk 2 arrays ──encode──► LocalChunk ─┘  width,   └─► ...
//!   (in parallel, as they arrive)            factor, dictionary
//! ```
//!
//! A column has one encoding, which needs all its chunks to be known; keeping the decoded arrays of a whole
//! column until then would take several times the memory of the encoded column. So each chunk is encoded at
//! once by what it knows alone ([`ColumnEncoder::encode`]), about as narrow as it will be, and the arrays are
//! let go. [`ColumnEncoder::plan`] then decides for the column (the width, the factor, the merged dictionary,
//! or that it is text), says how many bytes that takes, and [`Plan::write`] lays the chunks out in slabs of
//! host memory, widening those that were narrower.
//!
//! All loops over values are over primitive slices; types are dispatched once per array.

mod codes;
pub(crate) mod dictionary;
mod fixed;
mod integer;
mod placed;
mod plan;
mod slabs;
pub(crate) mod text;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, BooleanBufferBuilder};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::*;

use self::dictionary::{DictionaryBuilder, GaveUp, LocalDictionary};
use self::fixed::{LocalBooleans, LocalDecimals, LocalFloats};
use self::integer::{LocalIntegers, Piece};
use self::placed::LocalSlots;
use self::text::{LocalText, TextBuilder};
use crate::error::{Result, StoreError};

pub(crate) use self::integer::greatest_common_divisor;
pub(crate) use self::plan::Plan;

/// The family of encodings a type uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Every row is null.
    Null,
    Boolean,
    Integer,
    /// Float16 and Float32.
    Float32,
    Float64,
    /// Integer where the values fit, else 16 bytes.
    Decimal,
    /// Dictionary or text.
    Text {
        utf8: bool,
    },
}

impl Kind {
    /// The family of a type, or why it has none.
    fn of(data_type: &DataType) -> Result<Self, &'static str> {
        Ok(match data_type {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Boolean,
            data_type if data_type.is_integer() => Self::Integer,
            DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Timestamp(_, _)
            | DataType::Duration(_)
            | DataType::Decimal32(_, _)
            | DataType::Decimal64(_, _) => Self::Integer,
            DataType::Decimal128(_, _) => Self::Decimal,
            DataType::Float16 | DataType::Float32 => Self::Float32,
            DataType::Float64 => Self::Float64,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text { utf8: true },
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Self::Text { utf8: false },
            DataType::Dictionary(_, values) => match (values.as_ref(), Self::of(values)?) {
                (DataType::Dictionary(_, _), _) => {
                    return Err("dictionaries of dictionaries have no encoding");
                }
                // Decoding makes Arrow dictionaries by casts, and there is none to these.
                (DataType::Duration(_), _) | (_, Self::Null | Self::Boolean) => {
                    return Err("dictionaries of NULLs, booleans and durations have no encoding");
                }
                (_, kind) => kind,
            },
            DataType::Decimal256(_, _) => return Err("decimals of more than 38 digits have no encoding"),
            DataType::Interval(_) => return Err("intervals have no encoding"),
            DataType::FixedSizeBinary(_) => return Err("binaries of fixed size have no encoding"),
            DataType::RunEndEncoded(_, _) => return Err("run-end encoded arrays have no encoding"),
            _ => return Err("nested types have no encoding"),
        })
    }
}

/// Whether the store can hold columns of a type.
///
/// # Errors
/// The reason why not.
pub fn supports_type(data_type: &DataType) -> Result<(), &'static str> {
    Kind::of(data_type).map(|_| ())
}

/// One column of one chunk, encoded by what the chunk alone knows.
#[derive(Debug)]
pub(crate) struct LocalChunk {
    pub(crate) rows: u32,
    pub(crate) null_count: u32,
    /// Arrow bit order, only where there are nulls.
    validity: Option<Vec<u8>>,
    values: LocalValues,
}

#[derive(Debug)]
enum LocalValues {
    Boolean(LocalBooleans),
    Integer(LocalIntegers),
    Float32(LocalFloats<f32>),
    Float64(LocalFloats<f64>),
    Decimal(LocalDecimals),
    Dictionary(LocalDictionary),
    Text(LocalText),
    Slots(LocalSlots),
}

impl LocalChunk {
    /// Bytes of heap held.
    pub(crate) fn size(&self) -> u64 {
        let values = match &self.values {
            LocalValues::Boolean(values) => values.values.len(),
            LocalValues::Integer(values) => values.codes.bytes(),
            LocalValues::Float32(values) => values.values.len() * 4,
            LocalValues::Float64(values) => values.values.len() * 8,
            LocalValues::Decimal(values) => values.values.len() * 16,
            LocalValues::Dictionary(values) => values.size(),
            LocalValues::Text(values) => values.values.size(),
            LocalValues::Slots(values) => values.size(),
        };
        (values + self.validity.as_ref().map_or(0, Vec::len)) as u64
    }
}

/// Encodes one column.
#[derive(Debug, Clone)]
pub(crate) struct ColumnEncoder {
    pub(crate) name: String,
    data_type: DataType,
    kind: Kind,
    /// Text must become a dictionary.
    dictionary: bool,
}

impl ColumnEncoder {
    pub(crate) fn new(field: &Field, dictionary: bool) -> Result<Self> {
        let data_type = field.data_type().clone();
        let kind = Kind::of(&data_type).map_err(|reason| StoreError::UnsupportedType {
            column: field.name().clone(),
            data_type: data_type.clone(),
            reason,
        })?;
        Ok(Self {
            name: field.name().clone(),
            data_type,
            kind,
            dictionary,
        })
    }

    /// Encodes the arrays of one chunk: of the column's type, for text any layout of the same family. At
    /// least one row.
    pub(crate) fn encode(&self, arrays: &[ArrayRef]) -> Result<LocalChunk> {
        let rows: usize = arrays.iter().map(Array::len).sum();
        let too_many = |_| StoreError::UnsupportedSource {
            table: format!("column {}", self.name),
            reason: format!("a chunk has {rows} rows, the most are {}", u32::MAX),
        };
        let (validity, null_count) = validity(arrays, rows);
        let values = match self.kind {
            Kind::Text { .. } => self.encode_text(arrays, rows)?,
            Kind::Null => LocalValues::Integer(integer::encode::<i8>(&[])).with_zero_rows(rows),
            _ => {
                let arrays = arrays.iter().map(undictionary).collect::<Result<Vec<_>>>()?;
                self.encode_fixed(&arrays, rows)?
            }
        };
        Ok(LocalChunk {
            rows: u32::try_from(rows).map_err(too_many)?,
            null_count,
            validity,
            values,
        })
    }

    fn encode_fixed(&self, arrays: &[ArrayRef], rows: usize) -> Result<LocalValues> {
        let data_type = match &self.data_type {
            DataType::Dictionary(_, values) => values,
            other => other,
        };
        macro_rules! integers {
            ($type:ty) => {
                LocalValues::Integer(integer::encode(&self.pieces::<$type>(arrays)?))
            };
        }
        Ok(match data_type {
            DataType::Boolean => {
                let typed = |array| ArrayRef::as_boolean_opt(array).ok_or_else(|| self.wrong_type(array));
                let arrays = arrays.iter().map(typed).collect::<Result<Vec<&BooleanArray>>>()?;
                LocalValues::Boolean(fixed::encode_booleans(&arrays, rows))
            }
            DataType::Int8 => integers!(Int8Type),
            DataType::Int16 => integers!(Int16Type),
            DataType::Int32 => integers!(Int32Type),
            DataType::Int64 => integers!(Int64Type),
            DataType::UInt8 => integers!(UInt8Type),
            DataType::UInt16 => integers!(UInt16Type),
            DataType::UInt32 => integers!(UInt32Type),
            DataType::UInt64 => integers!(UInt64Type),
            DataType::Date32 => integers!(Date32Type),
            DataType::Date64 => integers!(Date64Type),
            DataType::Time32(TimeUnit::Second) => integers!(Time32SecondType),
            DataType::Time32(_) => integers!(Time32MillisecondType),
            DataType::Time64(TimeUnit::Microsecond) => integers!(Time64MicrosecondType),
            DataType::Time64(_) => integers!(Time64NanosecondType),
            DataType::Timestamp(TimeUnit::Second, _) => integers!(TimestampSecondType),
            DataType::Timestamp(TimeUnit::Millisecond, _) => integers!(TimestampMillisecondType),
            DataType::Timestamp(TimeUnit::Microsecond, _) => integers!(TimestampMicrosecondType),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => integers!(TimestampNanosecondType),
            DataType::Duration(TimeUnit::Second) => integers!(DurationSecondType),
            DataType::Duration(TimeUnit::Millisecond) => integers!(DurationMillisecondType),
            DataType::Duration(TimeUnit::Microsecond) => integers!(DurationMicrosecondType),
            DataType::Duration(TimeUnit::Nanosecond) => integers!(DurationNanosecondType),
            DataType::Decimal32(_, _) => integers!(Decimal32Type),
            DataType::Decimal64(_, _) => integers!(Decimal64Type),
            DataType::Decimal128(_, _) => self.encode_decimals(arrays, rows)?,
            DataType::Float16 => {
                LocalValues::Float32(fixed::encode_floats(&self.pieces::<Float16Type>(arrays)?, rows))
            }
            DataType::Float32 => {
                LocalValues::Float32(fixed::encode_floats(&self.pieces::<Float32Type>(arrays)?, rows))
            }
            DataType::Float64 => {
                LocalValues::Float64(fixed::encode_floats(&self.pieces::<Float64Type>(arrays)?, rows))
            }
            // `Kind::of` has sent the others elsewhere.
            other => return Err(StoreError::Internal(format!("{other} encoded as numbers"))),
        })
    }

    /// Decimals of up to 38 digits. Readers may hand them over as 64-bit ones, which is the same integers.
    fn encode_decimals(&self, arrays: &[ArrayRef], rows: usize) -> Result<LocalValues> {
        if arrays
            .iter()
            .all(|array| matches!(array.data_type(), DataType::Decimal64(_, _)))
        {
            return Ok(LocalValues::Integer(integer::encode(
                &self.pieces::<Decimal64Type>(arrays)?,
            )));
        }
        // The files of one table need not agree.
        let widened: Vec<ArrayRef> = arrays.iter().map(widened).collect();
        let arrays = widened.as_slice();
        let pieces = self.pieces::<Decimal128Type>(arrays)?;
        let range = integer::extremes(&pieces);
        let fits = |value: i128| i64::try_from(value).is_ok();
        Ok(match range {
            Some((minimum, maximum)) if !fits(minimum) || !fits(maximum) => {
                LocalValues::Decimal(fixed::encode_decimals(&pieces, rows, range))
            }
            _ => LocalValues::Integer(integer::encode(&pieces)),
        })
    }

    fn encode_text(&self, arrays: &[ArrayRef], rows: usize) -> Result<LocalValues> {
        let mut dictionary = DictionaryBuilder::new(rows, self.dictionary);
        let mut gave_up = false;
        for array in arrays {
            if let Err(GaveUp) = self.push_dictionary(&mut dictionary, array)? {
                gave_up = true;
                break;
            }
        }
        if !gave_up {
            return Ok(LocalValues::Dictionary(dictionary.finish()));
        }
        drop(dictionary);
        let arrays = arrays.iter().map(undictionary).collect::<Result<Vec<_>>>()?;
        let bytes = arrays.iter().map(text_bytes).sum();
        let mut text = TextBuilder::new(rows, bytes);
        for array in &arrays {
            match array.data_type() {
                DataType::Utf8 => text.push_all(array.as_string::<i32>()),
                DataType::LargeUtf8 => text.push_all(array.as_string::<i64>()),
                DataType::Utf8View => text.push_all(array.as_string_view()),
                DataType::Binary => text.push_all(array.as_binary::<i32>()),
                DataType::LargeBinary => text.push_all(array.as_binary::<i64>()),
                DataType::BinaryView => text.push_all(array.as_binary_view()),
                _ => return Err(self.wrong_type(array)),
            }
        }
        Ok(LocalValues::Text(text.finish()))
    }

    fn push_dictionary(
        &self,
        builder: &mut DictionaryBuilder,
        array: &ArrayRef,
    ) -> Result<Result<(), GaveUp>> {
        Ok(match array.data_type() {
            DataType::Utf8 => builder.push_all(array.as_string::<i32>()),
            DataType::LargeUtf8 => builder.push_all(array.as_string::<i64>()),
            DataType::Utf8View => builder.push_all(array.as_string_view()),
            DataType::Binary => builder.push_all(array.as_binary::<i32>()),
            DataType::LargeBinary => builder.push_all(array.as_binary::<i64>()),
            DataType::BinaryView => builder.push_all(array.as_binary_view()),
            DataType::Dictionary(key, _) => match key.as_ref() {
                DataType::Int8 => self.push_keys::<Int8Type>(builder, array)?,
                DataType::Int16 => self.push_keys::<Int16Type>(builder, array)?,
                DataType::Int32 => self.push_keys::<Int32Type>(builder, array)?,
                DataType::Int64 => self.push_keys::<Int64Type>(builder, array)?,
                DataType::UInt8 => self.push_keys::<UInt8Type>(builder, array)?,
                DataType::UInt16 => self.push_keys::<UInt16Type>(builder, array)?,
                DataType::UInt32 => self.push_keys::<UInt32Type>(builder, array)?,
                DataType::UInt64 => self.push_keys::<UInt64Type>(builder, array)?,
                _ => return Err(self.wrong_type(array)),
            },
            _ => return Err(self.wrong_type(array)),
        })
    }

    fn push_keys<K: ArrowDictionaryKeyType>(
        &self,
        builder: &mut DictionaryBuilder,
        array: &ArrayRef,
    ) -> Result<Result<(), GaveUp>> {
        let keys = array.as_dictionary::<K>();
        let values = keys.values();
        Ok(match values.data_type() {
            DataType::Utf8 => builder.push_keys(keys, values.as_string::<i32>()),
            DataType::LargeUtf8 => builder.push_keys(keys, values.as_string::<i64>()),
            DataType::Utf8View => builder.push_keys(keys, values.as_string_view()),
            DataType::Binary => builder.push_keys(keys, values.as_binary::<i32>()),
            DataType::LargeBinary => builder.push_keys(keys, values.as_binary::<i64>()),
            DataType::BinaryView => builder.push_keys(keys, values.as_binary_view()),
            _ => return Err(self.wrong_type(array)),
        })
    }

    fn pieces<'a, T: ArrowPrimitiveType>(&self, arrays: &'a [ArrayRef]) -> Result<Vec<Piece<'a, T::Native>>> {
        arrays
            .iter()
            .map(|array| {
                let typed = array.as_primitive_opt::<T>();
                let array = typed.ok_or_else(|| self.wrong_type(array))?;
                let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
                Ok(Piece {
                    values: array.values(),
                    nulls,
                })
            })
            .collect()
    }

    /// A source gave other arrays than its schema says. It may be right all the same, and is not ours.
    fn wrong_type(&self, array: &ArrayRef) -> StoreError {
        StoreError::UnsupportedType {
            column: self.name.clone(),
            data_type: array.data_type().clone(),
            reason: "its source announced another type",
        }
    }
}

impl LocalValues {
    fn with_zero_rows(self, rows: usize) -> Self {
        match self {
            Self::Integer(values) => Self::Integer(LocalIntegers {
                codes: codes::Codes::Zero(rows),
                ..values
            }),
            other => other,
        }
    }
}

/// The array without an Arrow dictionary.
fn undictionary(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(_, values) => Ok(cast(array, values)?),
        _ => Ok(ArrayRef::clone(array)),
    }
}

/// Decimals as 128-bit ones.
fn widened(array: &ArrayRef) -> ArrayRef {
    match array.as_primitive_opt::<Decimal64Type>() {
        Some(narrow) => Arc::new(narrow.unary::<_, Decimal128Type>(i128::from)),
        None => ArrayRef::clone(array),
    }
}

/// Bytes of the strings of an array, or an upper bound.
fn text_bytes(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8 => offsets_span(array.as_string::<i32>().offsets()),
        DataType::LargeUtf8 => offsets_span(array.as_string::<i64>().offsets()),
        DataType::Binary => offsets_span(array.as_binary::<i32>().offsets()),
        DataType::LargeBinary => offsets_span(array.as_binary::<i64>().offsets()),
        DataType::Utf8View => array
            .as_string_view()
            .lengths()
            .map(|length| length as usize)
            .sum(),
        DataType::BinaryView => array
            .as_binary_view()
            .lengths()
            .map(|length| length as usize)
            .sum(),
        _ => 0,
    }
}

fn offsets_span<O: ArrowNativeType>(offsets: &[O]) -> usize {
    match (offsets.first(), offsets.last()) {
        (Some(first), Some(last)) => last.as_usize() - first.as_usize(),
        _ => 0,
    }
}

/// The validity bitmap over all arrays, where there are nulls.
fn validity(arrays: &[ArrayRef], rows: usize) -> (Option<Vec<u8>>, u32) {
    let nulls: Vec<_> = arrays
        .iter()
        .map(|array| array.logical_nulls().filter(|nulls| nulls.null_count() > 0))
        .collect();
    let null_count: usize = nulls.iter().flatten().map(NullBuffer::null_count).sum();
    if null_count == 0 {
        return (None, 0);
    }
    let mut bits = BooleanBufferBuilder::new(rows);
    for (array, nulls) in arrays.iter().zip(&nulls) {
        match nulls {
            None => bits.append_n(array.len(), true),
            Some(nulls) => bits.append_buffer(nulls.inner()),
        }
    }
    let mut bytes = bits.as_slice().to_vec();
    bytes.resize(rows.div_ceil(8), 0);
    (Some(bytes), null_count as u32)
}
