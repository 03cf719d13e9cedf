//! Decoding of encoded columns to Arrow arrays of the schema's type, with exactly the same values.
//!
//! The CPU's scan decodes, and tests compare with its result. Null rows become Arrow nulls; their values are
//! undefined.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, Float16Array, Float32Array, Float64Array,
    GenericByteViewBuilder, LargeBinaryArray, LargeStringArray, NullArray, OffsetSizeTrait, PrimitiveArray,
    StringArray, UInt32Array, new_empty_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::{CastOptions, cast, take};
use arrow::datatypes::*;
use arrow::error::ArrowError;
use arrow::util::display::FormatOptions;
use half::f16;

use crate::column::{Chunk, ChunkData, Column, Encoding, Width};
use crate::error::{Result, StoreError};
use crate::layout::CodeMeaning;

/// Bytes of strings after which a batch is cut short: far from the 2 GiB that a `StringArray` can address.
const STRING_BYTES_PER_BATCH: usize = 256 << 20;

/// Decodes one column.
#[derive(Debug, Clone)]
pub struct Decoder {
    column: Arc<Column>,
    /// The dictionary as the column's logical type.
    dictionary: Option<ArrayRef>,
}

impl Decoder {
    /// Prepares decoding a column.
    ///
    /// # Errors
    /// The dictionary does not fit the column's type.
    pub fn new(column: &Arc<Column>) -> Result<Self> {
        let dictionary = column
            .dictionary()
            .map(|values| cast(values, plain_type(&column.data_type)));
        Ok(Self {
            column: Arc::clone(column),
            dictionary: dictionary.transpose()?,
        })
    }

    /// The column.
    pub fn column(&self) -> &Arc<Column> {
        &self.column
    }

    /// Number of rows from `start` on that decode into one array: at least 1 and at most `rows`. They are
    /// fewer than `rows` if their strings or the keys of an Arrow dictionary would be too large.
    pub fn batch_rows(&self, chunk: usize, start: usize, rows: usize) -> usize {
        let rows = rows.min(self.most_rows()).max(1);
        let Encoding::Text { offset_width } = &self.column.encoding else {
            return rows;
        };
        let chunk = &self.column.chunks[chunk];
        let end = |row: usize| string_offset(chunk, *offset_width, row);
        let first = end(start);
        if end(start + rows) - first <= STRING_BYTES_PER_BATCH {
            return rows;
        }
        let mut fitting = 1..rows;
        while fitting.start < fitting.end {
            let middle = fitting.start + (fitting.end - fitting.start).div_ceil(2);
            if end(start + middle) - first <= STRING_BYTES_PER_BATCH {
                fitting.start = middle;
            } else {
                fitting.end = middle - 1;
            }
        }
        fitting.start
    }

    /// Number of rows for which the key type of the Arrow dictionary suffices. A chunk may have more distinct
    /// values than each of the batches that it was encoded from.
    fn most_rows(&self) -> usize {
        let DataType::Dictionary(key, _) = &self.column.data_type else {
            return usize::MAX;
        };
        let keys = match key.as_ref() {
            DataType::Int8 => 1 << 7,
            DataType::UInt8 => 1 << 8,
            DataType::Int16 => 1 << 15,
            DataType::UInt16 => 1 << 16,
            _ => usize::MAX,
        };
        match self.column.dictionary() {
            Some(values) if values.len() <= keys => usize::MAX,
            _ => keys,
        }
    }

    /// Decodes some rows of a chunk into an array of the column's type.
    ///
    /// # Errors
    /// The rows are not in the chunk, or the type cannot hold them (strings beyond 2 GiB, Arrow dictionary
    /// keys too narrow).
    pub fn decode(&self, chunk: usize, rows: Range<usize>) -> Result<ArrayRef> {
        let chunk = self
            .column
            .chunks
            .get(chunk)
            .filter(|chunk| rows.start <= rows.end && rows.end <= chunk.rows as usize)
            .ok_or_else(|| StoreError::Internal(format!("rows {rows:?} of chunk {chunk} do not exist")))?;
        if rows.is_empty() {
            return Ok(new_empty_array(&self.column.data_type));
        }
        let nulls = chunk.validity.as_ref().map(|bits| {
            let bits = &bits.as_slice()[rows.start / 8..rows.end.div_ceil(8)];
            NullBuffer::new(BooleanBuffer::new(Buffer::from(bits), rows.start % 8, rows.len()))
        });
        let plain = plain_type(&self.column.data_type);
        let array = self.decode_plain(chunk, rows, nulls, plain)?;
        match &self.column.data_type {
            DataType::Dictionary(_, _) => Ok(cast(&array, &self.column.data_type)?),
            _ => Ok(array),
        }
    }

    fn decode_plain(
        &self,
        chunk: &Chunk,
        rows: Range<usize>,
        nulls: Option<NullBuffer>,
        data_type: &DataType,
    ) -> Result<ArrayRef> {
        // Values and strings are never packed.
        let data = chunk.data.stored().as_slice();
        match &self.column.encoding {
            Encoding::Integer { width, factor } => {
                let codes = CodeRange::Stored(&chunk.data, *width, rows);
                integers(chunk.base, *factor, codes, nulls, data_type)
            }
            Encoding::Boolean => {
                let bytes = &data[rows];
                let values = BooleanBuffer::collect_bool(bytes.len(), |row| bytes[row] != 0);
                Ok(Arc::new(BooleanArray::new(values, nulls)))
            }
            Encoding::Float32 => {
                let values: &[f32] = &bytemuck::cast_slice(data)[rows];
                Ok(match data_type {
                    DataType::Float16 => {
                        let values: ScalarBuffer<f16> =
                            values.iter().map(|value| f16::from_f32(*value)).collect();
                        Arc::new(Float16Array::new(values, nulls))
                    }
                    _ => Arc::new(Float32Array::new(values.to_vec().into(), nulls)),
                })
            }
            Encoding::Float64 => {
                let values: &[f64] = &bytemuck::cast_slice(data)[rows];
                Ok(Arc::new(Float64Array::new(values.to_vec().into(), nulls)))
            }
            Encoding::Decimal128 => {
                let values: &[i128] = &bytemuck::cast_slice(data)[rows];
                let array = PrimitiveArray::<Decimal128Type>::new(values.to_vec().into(), nulls);
                Ok(Arc::new(array.with_data_type(data_type.clone())))
            }
            Encoding::Dictionary { width, .. } => {
                let mut codes = vec![0; rows.len()];
                let stored = &chunk.data;
                stored.for_each_code(*width, rows, |row, code| codes[row] = code as u32);
                self.look_up(codes, nulls)
            }
            Encoding::Slots { width, layout } => {
                let (of_slot, mut codes) = (layout.slot_codes(), vec![0; rows.len()]);
                let stored = &chunk.data;
                stored.for_each_code(*width, rows, |row, slot| codes[row] = of_slot[slot as usize]);
                match layout.meaning {
                    CodeMeaning::Dictionary { .. } => self.look_up(codes, nulls),
                    CodeMeaning::Integer { base, factor } => {
                        integers(base, factor, CodeRange::Found(&codes), nulls, data_type)
                    }
                }
            }
            Encoding::Text { offset_width } => text(chunk, *offset_width, rows, nulls, data_type),
        }
    }

    /// The dictionary values of these codes.
    fn look_up(&self, codes: Vec<u32>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let codes = UInt32Array::new(codes.into(), nulls);
        let dictionary = self.dictionary.as_ref().ok_or_else(|| missing("a dictionary"))?;
        Ok(take(dictionary, &codes, None)?)
    }
}

/// Casts that fail instead of returning NULL.
pub(crate) const STRICT: CastOptions<'_> = CastOptions {
    safe: false,
    format_options: FormatOptions::new(),
};

/// The type without an Arrow dictionary around it.
pub(crate) fn plain_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain_type(values),
        other => other,
    }
}

fn missing(what: &str) -> StoreError {
    StoreError::Internal(format!("{what} is missing from an encoded column"))
}

/// A native integer that consists of the low bits of a 64-bit one.
trait FromBits: Copy + Default {
    fn from_bits(bits: u64) -> Self;
}

macro_rules! from_bits {
    ($($native:ty),*) => {$(
        impl FromBits for $native {
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                bits as i64 as $native
            }
        }
    )*};
}
from_bits!(i8, i16, i32, i64, u8, u16, u32, u64, i128);

/// Codes to be decoded.
enum CodeRange<'a> {
    /// Rows of a chunk.
    Stored(&'a ChunkData, Width, Range<usize>),
    /// Codes that were looked up for slots.
    Found(&'a [u32]),
}

impl CodeRange<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Stored(_, _, rows) => rows.len(),
            Self::Found(codes) => codes.len(),
        }
    }

    #[inline(always)]
    fn for_each(self, mut visit: impl FnMut(usize, u64)) {
        match self {
            Self::Stored(data, width, rows) => data.for_each_code(width, rows, visit),
            Self::Found(codes) => codes
                .iter()
                .enumerate()
                .for_each(|(row, code)| visit(row, u64::from(*code))),
        }
    }
}

fn integers(
    base: i64,
    factor: u64,
    codes: CodeRange<'_>,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    macro_rules! decode {
        ($type:ty) => {{
            type Native = <$type as ArrowPrimitiveType>::Native;
            let mut values = vec![Native::default(); codes.len()];
            codes.for_each(|row, code| {
                values[row] = Native::from_bits((base as u64).wrapping_add(code.wrapping_mul(factor)));
            });
            let array = PrimitiveArray::<$type>::new(values.into(), nulls);
            Ok(Arc::new(array.with_data_type(data_type.clone())))
        }};
    }
    match data_type {
        DataType::Null => Ok(Arc::new(NullArray::new(codes.len()))),
        DataType::Int8 => decode!(Int8Type),
        DataType::Int16 => decode!(Int16Type),
        DataType::Int32 => decode!(Int32Type),
        DataType::Int64 => decode!(Int64Type),
        DataType::UInt8 => decode!(UInt8Type),
        DataType::UInt16 => decode!(UInt16Type),
        DataType::UInt32 => decode!(UInt32Type),
        DataType::UInt64 => decode!(UInt64Type),
        DataType::Date32 => decode!(Date32Type),
        DataType::Date64 => decode!(Date64Type),
        DataType::Time32(TimeUnit::Second) => decode!(Time32SecondType),
        DataType::Time32(_) => decode!(Time32MillisecondType),
        DataType::Time64(TimeUnit::Microsecond) => decode!(Time64MicrosecondType),
        DataType::Time64(_) => decode!(Time64NanosecondType),
        DataType::Timestamp(TimeUnit::Second, _) => decode!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => decode!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => decode!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => decode!(TimestampNanosecondType),
        DataType::Duration(TimeUnit::Second) => decode!(DurationSecondType),
        DataType::Duration(TimeUnit::Millisecond) => decode!(DurationMillisecondType),
        DataType::Duration(TimeUnit::Microsecond) => decode!(DurationMicrosecondType),
        DataType::Duration(TimeUnit::Nanosecond) => decode!(DurationNanosecondType),
        DataType::Decimal32(_, _) => decode!(Decimal32Type),
        DataType::Decimal64(_, _) => decode!(Decimal64Type),
        DataType::Decimal128(_, _) => decode!(Decimal128Type),
        other => Err(StoreError::Internal(format!("integers decoded as {other}"))),
    }
}

/// The byte of the chunk's data at which a row's string starts.
pub(crate) fn string_offset(chunk: &Chunk, width: Width, row: usize) -> usize {
    let Some(offsets) = chunk.offsets.as_ref() else {
        return 0;
    };
    match width {
        Width::Eight => bytemuck::cast_slice::<u8, u64>(offsets.as_slice())[row] as usize,
        _ => bytemuck::cast_slice::<u8, u32>(offsets.as_slice())[row] as usize,
    }
}

fn text(
    chunk: &Chunk,
    width: Width,
    rows: Range<usize>,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let first = string_offset(chunk, width, rows.start);
    let bytes = &chunk.data.stored().as_slice()[first..string_offset(chunk, width, rows.end)];
    let offset = |row: usize| string_offset(chunk, width, row) - first;
    let view = matches!(data_type, DataType::Utf8View | DataType::BinaryView);
    if view {
        let value = |row: usize| &bytes[offset(row)..offset(row + 1)];
        let start = rows.start;
        let valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row - start));
        if *data_type == DataType::BinaryView {
            let mut builder = GenericByteViewBuilder::<BinaryViewType>::with_capacity(rows.len());
            rows.for_each(|row| builder.append_option(valid(row).then(|| value(row))));
            return Ok(Arc::new(builder.finish()));
        }
        // The bytes are checked once as a whole, then cut at offsets between characters.
        let text = std::str::from_utf8(bytes).map_err(|_| missing("valid UTF-8"))?;
        let mut builder = GenericByteViewBuilder::<StringViewType>::with_capacity(rows.len());
        for row in rows {
            let value = text
                .get(offset(row)..offset(row + 1))
                .ok_or_else(|| missing("valid UTF-8"))?;
            builder.append_option(valid(row).then_some(value));
        }
        return Ok(Arc::new(builder.finish()));
    }
    let rows = rows.start..rows.end + 1;
    Ok(match data_type {
        DataType::Utf8 => Arc::new(StringArray::try_new(offsets(rows, offset)?, bytes.into(), nulls)?),
        DataType::LargeUtf8 => Arc::new(LargeStringArray::try_new(
            offsets(rows, offset)?,
            bytes.into(),
            nulls,
        )?),
        DataType::Binary => Arc::new(BinaryArray::try_new(offsets(rows, offset)?, bytes.into(), nulls)?),
        DataType::LargeBinary => Arc::new(LargeBinaryArray::try_new(
            offsets(rows, offset)?,
            bytes.into(),
            nulls,
        )?),
        other => return Err(StoreError::Internal(format!("text decoded as {other}"))),
    })
}

fn offsets<O: OffsetSizeTrait>(
    rows: Range<usize>,
    offset: impl Fn(usize) -> usize,
) -> Result<OffsetBuffer<O>> {
    let offsets = rows.map(|row| O::from_usize(offset(row)));
    let offsets = offsets
        .collect::<Option<Vec<O>>>()
        .ok_or(ArrowError::OffsetOverflowError(i32::MAX as usize))?;
    Ok(OffsetBuffer::new(ScalarBuffer::from(offsets)))
}
