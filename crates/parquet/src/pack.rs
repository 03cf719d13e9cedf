//! Decoded integers and indices as the codes of a column.

use galatea_device::{DeviceBuffer, DeviceError, DeviceSlice, In, Out, Stream};
use galatea_kernels::ParquetPacking;

use crate::decode::Decoder;
use crate::error::{ParquetError, Result};
use crate::rows::{Bounds, DecodedColumn, DecodedValues};

/// The codes of an integer column: `integer = base + factor * code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Integer of code 0.
    pub base: i64,
    /// Difference of integers with consecutive codes, at least 1.
    pub factor: u64,
    /// Bytes of a code: 1, 2, 4 or 8.
    pub width: u32,
}

impl DecodedColumn {
    /// The integers, and bytes of each.
    fn integers(&self) -> Result<(DeviceSlice<'_, u8>, usize)> {
        match &self.values {
            DecodedValues::Fixed {
                form,
                values,
                bounds: Some(Bounds::Integers(..)) | None,
                ..
            } if form.width() >= size_of::<u64>() => Ok((values.as_slice(), form.width())),
            _ => Err(ParquetError::Device(DeviceError::Range {
                what: "integers of a column without integers",
                start: 0,
                end: self.rows as u64,
                len: 0,
            })),
        }
    }
}

impl Decoder {
    /// The greatest common divisor of the differences between the integers of a column and `base`, which is
    /// the least of them; 0 if all are equal to it.
    ///
    /// # Errors
    /// The device's; [`galatea_device::DeviceError::Range`] if the column does not have integers.
    pub fn common_divisor(&self, stream: &Stream, column: &DecodedColumn, base: i64) -> Result<u64> {
        let (values, bytes) = column.integers()?;
        if column.rows == 0 {
            return Ok(0);
        }
        let mut divisors = self
            .device
            .alloc::<u64>(stream, self.divisor.divisors(column.rows))?
            .assume_written();
        self.divisor.launch(
            stream,
            (In(values), bytes),
            column.validity.as_ref().map(In),
            (base as u64, column.rows),
            Out(&mut divisors),
        )?;
        let divisors = stream.read(&divisors, ..)?;
        Ok(divisors.into_iter().fold(0, |left, right| {
            let (mut left, mut right) = (left, right);
            while right != 0 {
                (left, right) = (right, left % right);
            }
            left
        }))
    }

    /// Converts decoded integers to the codes of a frame; NULL rows receive code 0. The caller chooses the
    /// frame from [`DecodedValues::Fixed::bounds`]: every integer has to have a code of the width.
    ///
    /// # Errors
    /// The device's; [`galatea_device::DeviceError::Range`] if the column does not have integers.
    pub fn pack(&self, stream: &Stream, column: &DecodedColumn, frame: Frame) -> Result<DeviceBuffer<u8>> {
        let (values, bytes) = column.integers()?;
        let packing = ParquetPacking::Integers {
            values: In(values),
            bytes,
            base: frame.base,
            factor: frame.factor,
        };
        self.packed(stream, column, packing, frame.width)
    }

    /// Converts indices to codes of `width` bytes: `map` has the code of each index. NULL rows receive code
    /// 0.
    ///
    /// # Errors
    /// The device's; [`galatea_device::DeviceError::Range`] if the column does not have indices, or `map`
    /// not a code for each.
    pub fn pack_indices(
        &self,
        stream: &Stream,
        column: &DecodedColumn,
        map: &DeviceBuffer<u32>,
        width: u32,
    ) -> Result<DeviceBuffer<u8>> {
        let range = |end: usize| {
            ParquetError::Device(DeviceError::Range {
                what: "codes of dictionary indices",
                start: 0,
                end: end as u64,
                len: map.len() as u64,
            })
        };
        let DecodedValues::Indices {
            indices,
            dictionary_values,
            ..
        } = &column.values
        else {
            return Err(range(column.rows));
        };
        if map.len() != *dictionary_values {
            return Err(range(*dictionary_values));
        }
        let packing = ParquetPacking::Indices {
            indices: In(indices),
            map: In(map),
        };
        self.packed(stream, column, packing, width)
    }

    fn packed(
        &self,
        stream: &Stream,
        column: &DecodedColumn,
        packing: ParquetPacking<'_>,
        width: u32,
    ) -> Result<DeviceBuffer<u8>> {
        let mut codes = self.device.alloc::<u8>(stream, column.rows * width as usize)?;
        let validity = column.validity.as_ref().map(In);
        self.pack
            .launch(stream, (packing, column.rows), validity, width, Out(&mut codes))?;
        Ok(codes.assume_written())
    }
}
