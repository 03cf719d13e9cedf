//! Encodes the Arrow arrays of one chunk of a column.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, BooleanBufferBuilder};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::*;

use super::chunk::{LocalChunk, LocalValues};
use super::dictionary::{DictionaryBuilder, GaveUp};
use super::integer::{LocalIntegers, Piece};
use super::kind::Kind;
use super::string::StringBuilder;
use super::{fixed, integer};
use crate::error::{Result, StoreError};
use crate::packed::Packing;

/// Encodes one column.
#[derive(Debug, Clone)]
pub(crate) struct ColumnEncoder {
    pub(crate) name: String,
    pub(super) data_type: DataType,
    pub(super) kind: Kind,
    /// Whether strings must become a dictionary.
    pub(super) dictionary: bool,
    /// The codes that are packed.
    pub(super) packing: Packing,
}

impl ColumnEncoder {
    pub(crate) fn new(field: &Field, dictionary: bool, packing: Packing) -> Result<Self> {
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
            packing,
        })
    }

    /// Encodes the arrays of one chunk, which have at least one row. Arrays have the column's type; strings
    /// may have any layout of the same family.
    pub(crate) fn encode(&self, arrays: &[ArrayRef]) -> Result<LocalChunk> {
        let rows: usize = arrays.iter().map(Array::len).sum();
        let too_many = |_| StoreError::UnsupportedSource {
            table: format!("column {}", self.name),
            reason: format!("a chunk has {rows} rows, the most are {}", u32::MAX),
        };
        let (validity, null_count) = validity(arrays, rows);
        let values = match self.kind {
            Kind::Text { .. } => self.encode_string(arrays, rows)?,
            Kind::Null => LocalValues::Integer(LocalIntegers::zeros(rows)),
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
                LocalValues::Integer(integer::encode(
                    &self.pieces::<$type>(arrays)?,
                    self.packing,
                ))
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
            // `Kind::of` handles the other types.
            other => return Err(StoreError::Internal(format!("{other} encoded as numbers"))),
        })
    }

    /// Encodes decimals of up to 38 digits. Readers may produce them as 64-bit decimals, with the same
    /// integers.
    fn encode_decimals(&self, arrays: &[ArrayRef], rows: usize) -> Result<LocalValues> {
        if arrays
            .iter()
            .all(|array| matches!(array.data_type(), DataType::Decimal64(_, _)))
        {
            return Ok(LocalValues::Integer(integer::encode(
                &self.pieces::<Decimal64Type>(arrays)?,
                self.packing,
            )));
        }
        // Files of one table may have decimals of different widths.
        let widened: Vec<ArrayRef> = arrays.iter().map(widened).collect();
        let arrays = widened.as_slice();
        let pieces = self.pieces::<Decimal128Type>(arrays)?;
        let range = integer::extremes(&pieces);
        let fits = |value: i128| i64::try_from(value).is_ok();
        Ok(match range {
            Some((minimum, maximum)) if !fits(minimum) || !fits(maximum) => {
                LocalValues::Decimal(fixed::encode_decimals(&pieces, rows, range))
            }
            _ => LocalValues::Integer(integer::encode(&pieces, self.packing)),
        })
    }

    fn encode_string(&self, arrays: &[ArrayRef], rows: usize) -> Result<LocalValues> {
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
        let bytes = arrays.iter().map(string_bytes).sum();
        let mut text = StringBuilder::new(rows, bytes);
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

    /// The error of a source that returns arrays of another type than its schema has.
    fn wrong_type(&self, array: &ArrayRef) -> StoreError {
        StoreError::UnsupportedType {
            column: self.name.clone(),
            data_type: array.data_type().clone(),
            reason: "its source announced another type",
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

/// Decimals as 128-bit decimals.
fn widened(array: &ArrayRef) -> ArrayRef {
    match array.as_primitive_opt::<Decimal64Type>() {
        Some(narrow) => Arc::new(narrow.unary::<_, Decimal128Type>(i128::from)),
        None => ArrayRef::clone(array),
    }
}

/// Bytes of the strings of an array, or an upper bound.
fn string_bytes(array: &ArrayRef) -> usize {
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

/// The validity bitmap over all arrays, if they have nulls.
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
