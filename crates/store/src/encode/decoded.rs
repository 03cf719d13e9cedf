//! Columns that the device has decoded from Parquet pages, as local chunks.
//!
//! Integers arrive as codes: the device finds their bounds and their common divisor, and writes the codes.
//! Strings with dictionary indices arrive as indices and one dictionary, and are entered like Arrow
//! dictionaries.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, DictionaryArray, Int32Array, LargeBinaryArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow::compute::cast_with_options;
use arrow::datatypes::{DataType, Int32Type};
use bytemuck::Pod;
use galatea_device::DeviceBuffer;
use galatea_parquet::{
    Bounds, DecodedColumn, DecodedStrings, DecodedValues, Decoder, Frame, Lane, Offsets, ParquetError,
};

use super::chunk::{LocalChunk, LocalValues};
use super::codes::Codes;
use super::encoder::ColumnEncoder;
use super::fixed::{LocalBooleans, LocalDecimals, LocalFloats};
use super::integer::LocalIntegers;
use super::kind::Kind;
use crate::column::Width;
use crate::decode::STRICT;
use crate::error::{Result, StoreError};

/// The outcome for a column on the device: an error of the device or its pages is separate from the store's.
type OnDevice<T> = std::result::Result<T, ParquetError>;

/// A decoded column with the kernels and the lane that have decoded it.
pub(crate) struct Decoded<'d> {
    pub(crate) decoder: &'d Decoder,
    pub(crate) lane: &'d mut Lane,
    pub(crate) column: &'d DecodedColumn,
}

/// A decoded column in host memory.
pub(crate) enum Received {
    /// The device has encoded it.
    Encoded(LocalChunk),
    /// Strings of the rows, which the host encodes.
    Strings(ArrayRef),
}

impl ColumnEncoder {
    /// Encodes a decoded column of one chunk, after the lane was returned.
    pub(crate) fn encode_received(&self, received: Received) -> Result<LocalChunk> {
        match received {
            Received::Encoded(chunk) => Ok(chunk),
            Received::Strings(array) => self.encode(&[array]),
        }
    }

    /// Copies a decoded column of one chunk, which has at least one row, to the host. The device encodes
    /// numbers before.
    pub(crate) fn receive(&self, mut decoded: Decoded<'_>) -> OnDevice<Result<Received>> {
        let column = decoded.column;
        let values = match &column.values {
            DecodedValues::Fixed {
                values, bounds, nans, ..
            } => match self.kind {
                Kind::Boolean => LocalValues::Boolean(LocalBooleans {
                    values: decoded.read(values)?,
                    any_false: matches!(bounds, Some(Bounds::Integers(0, _))),
                    any_true: matches!(bounds, Some(Bounds::Integers(_, 1))),
                }),
                Kind::Float32 => LocalValues::Float32(decoded.floats(values, *bounds, *nans)?),
                Kind::Float64 => LocalValues::Float64(decoded.floats(values, *bounds, *nans)?),
                Kind::Null | Kind::Integer | Kind::Decimal | Kind::Text { .. } => match *bounds {
                    Some(Bounds::Integers(least, greatest)) => {
                        decoded.integers(self.kind, values, (least, greatest))?
                    }
                    _ => LocalValues::Integer(LocalIntegers::zeros(column.rows)),
                },
            },
            DecodedValues::Indices { .. } | DecodedValues::Strings(_) => {
                return Ok(decoded.strings(self.kind)?.map(Received::Strings));
            }
        };
        let validity = decoded.validity()?;
        Ok(Ok(Received::Encoded(LocalChunk {
            rows: column.rows as u32,
            null_count: column.null_count as u32,
            validity,
            values,
        })))
    }
}

impl Decoded<'_> {
    /// Copies values to the host.
    fn read<T: Pod>(&mut self, values: &DeviceBuffer<u8>) -> OnDevice<Vec<T>> {
        self.lane.read(values)
    }

    /// The bitmap in Arrow's order, if there are NULLs.
    fn validity(&mut self) -> OnDevice<Option<Vec<u8>>> {
        let Some(words) = &self.column.validity else {
            return Ok(None);
        };
        let mut bytes: Vec<u8> = self.lane.read(words)?;
        bytes.truncate(self.column.rows.div_ceil(8));
        Ok(Some(bytes))
    }

    fn floats<T: Pod>(
        &mut self,
        values: &DeviceBuffer<u8>,
        bounds: Option<Bounds>,
        nans: u64,
    ) -> OnDevice<LocalFloats<T>> {
        Ok(LocalFloats {
            values: self.read(values)?,
            range: match bounds {
                Some(Bounds::Floats(least, greatest)) => Some((least, greatest)),
                _ => None,
            },
            has_nan: nans > 0,
        })
    }

    fn integers(
        &mut self,
        kind: Kind,
        values: &DeviceBuffer<u8>,
        (least, greatest): (i128, i128),
    ) -> OnDevice<LocalValues> {
        let fits = |value: i128| i64::try_from(value).is_ok();
        if kind == Kind::Decimal && !(fits(least) && fits(greatest)) {
            return Ok(LocalValues::Decimal(LocalDecimals {
                values: self.read(values)?,
                range: Some((least, greatest)),
            }));
        }
        let (rows, span, base) = (self.column.rows, (greatest - least) as u64, least as i64);
        let stream = self.lane.stream().clone();
        let divisor = self.decoder.common_divisor(&stream, self.column, base)?;
        let narrowed = span.checked_div(divisor).unwrap_or(0);
        let width = Width::for_maximum(narrowed);
        let factor = match width < Width::for_maximum(span) {
            true => divisor.max(1),
            false => 1,
        };
        let (decoder, column) = (self.decoder, self.column);
        let packed = || {
            let frame = Frame {
                base,
                factor,
                width: width.bytes() as u32,
            };
            decoder.pack(&stream, column, frame)
        };
        let codes = match width {
            Width::Zero => Codes::Zero(rows),
            Width::One => Codes::One(self.read(&packed()?)?),
            Width::Two => Codes::Two(self.read(&packed()?)?),
            Width::Four => Codes::Four(self.read(&packed()?)?),
            Width::Eight => Codes::Eight(self.read(&packed()?)?),
        };
        Ok(LocalValues::Integer(LocalIntegers {
            range: Some((least, greatest)),
            divisor,
            factor,
            codes,
        }))
    }

    /// The strings of the rows as an Arrow array.
    fn strings(&mut self, kind: Kind) -> OnDevice<Result<ArrayRef>> {
        let nulls = self.validity()?.map(|bytes| {
            let bits = BooleanBuffer::new(Buffer::from_vec(bytes), 0, self.column.rows);
            NullBuffer::new(bits)
        });
        let (strings, indices) = match &self.column.values {
            DecodedValues::Strings(strings) => (strings, None),
            DecodedValues::Indices {
                indices, dictionary, ..
            } => (dictionary, Some(self.read::<i32>(indices)?)),
            DecodedValues::Fixed { .. } => {
                return Ok(Err(StoreError::Internal("numbers decoded as strings".to_owned())));
            }
        };
        let of_rows = if indices.is_some() { None } else { nulls.clone() };
        let array = match self.bytes(strings, of_rows, kind)? {
            Ok(array) => array,
            Err(error) => return Ok(Err(error)),
        };
        Ok(match indices {
            None => Ok(array),
            Some(indices) => Int32Array::try_new(indices.into(), nulls)
                .and_then(|keys| DictionaryArray::<Int32Type>::try_new(keys, array))
                .map(|array| Arc::new(array) as ArrayRef)
                .map_err(StoreError::from),
        })
    }

    /// Strings as an array of their kind.
    fn bytes(
        &mut self,
        strings: &DecodedStrings,
        nulls: Option<NullBuffer>,
        kind: Kind,
    ) -> OnDevice<Result<ArrayRef>> {
        let bytes = Buffer::from_vec(self.lane.read::<u8, u8>(&strings.bytes)?);
        let narrow = i32::try_from(bytes.len()).is_ok();
        let (array, text): (Result<ArrayRef, _>, _) = match &strings.offsets {
            Offsets::Narrow(offsets) if narrow => {
                // They are below 2^31, so their bits are those of signed integers.
                let offsets: Vec<i32> = self.lane.read(offsets)?;
                let array = BinaryArray::try_new(OffsetBuffer::new(offsets.into()), bytes, nulls);
                (array.map(|array| Arc::new(array) as ArrayRef), DataType::Utf8)
            }
            offsets => {
                let offsets: Vec<i64> = match offsets {
                    Offsets::Narrow(offsets) => {
                        let offsets: Vec<u32> = self.lane.read(offsets)?;
                        offsets.into_iter().map(i64::from).collect()
                    }
                    Offsets::Wide(offsets) => self.lane.read(offsets)?,
                };
                let array = LargeBinaryArray::try_new(OffsetBuffer::new(offsets.into()), bytes, nulls);
                (
                    array.map(|array| Arc::new(array) as ArrayRef),
                    DataType::LargeUtf8,
                )
            }
        };
        let array = array.and_then(|array| match kind {
            Kind::Text { utf8: true } => cast_with_options(&array, &text, &STRICT),
            _ => Ok(array),
        });
        Ok(array.map_err(StoreError::from))
    }
}
