//! Output values, as kernels write them, and their conversion to arrays.

use super::{Integers, dictionary_array};
use arrow::array::{ArrayRef, BooleanArray, Float32Array, Float64Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use galatea_codegen::output::OutputForm;
use std::sync::Arc;

/// Output values of some rows, as the kernel left them.
pub(crate) enum Values<'a> {
    /// Contiguous values.
    Bytes(&'a [u8]),
    /// Values in words, from a bit position; 16-byte values are split into halves.
    Words {
        low: &'a [u64],
        high: &'a [u64],
        bit: u32,
    },
}

impl Values<'_> {
    /// The array of that type, from values of that form.
    ///
    /// # Errors
    /// Errors of Arrow; row numbers of a source are not values.
    pub(crate) fn array(
        &self,
        form: &OutputForm,
        nulls: Option<NullBuffer>,
        data_type: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        match form {
            OutputForm::Integer { width: 4 } => {
                let narrow = self.u32s(|value| i64::from(value as i32));
                Integers::Narrow(narrow).array(nulls, data_type)
            }
            OutputForm::Integer { width: 8 } => {
                Integers::Narrow(self.u64s(|value| value as i64)).array(nulls, data_type)
            }
            OutputForm::Integer { .. } => Integers::Wide(self.i128s()).array(nulls, data_type),
            OutputForm::Boolean => {
                let bytes = self.u8s();
                let bits = BooleanBuffer::collect_bool(bytes.len(), |i| bytes[i] != 0);
                Ok(Arc::new(BooleanArray::new(bits, nulls)))
            }
            OutputForm::Float32 => {
                let floats = self.u32s(f32::from_bits);
                cast(&Float32Array::new(floats.into(), nulls), data_type)
            }
            OutputForm::Float64 => {
                let floats = self.u64s(f64::from_bits);
                cast(&Float64Array::new(floats.into(), nulls), data_type)
            }
            OutputForm::Code { values: dictionary } => {
                dictionary_array(self.u32s(|code| code), nulls, dictionary, data_type)
            }
            OutputForm::Row(_) => Err(ArrowError::SchemaError(
                "the number of a row is not a value".to_owned(),
            )),
        }
    }

    fn u8s(&self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.to_vec(),
            Self::Words { low, bit, .. } => low.iter().map(|word| (word >> bit) as u8).collect(),
        }
    }

    fn u32s<T>(&self, value: impl Fn(u32) -> T) -> Vec<T> {
        match self {
            Self::Bytes(bytes) => elements(bytes).map(|b| value(u32::from_le_bytes(b))).collect(),
            Self::Words { low, bit, .. } => low.iter().map(|word| value((word >> bit) as u32)).collect(),
        }
    }

    pub(super) fn u64s<T>(&self, value: impl Fn(u64) -> T) -> Vec<T> {
        match self {
            Self::Bytes(bytes) => elements(bytes).map(|b| value(u64::from_le_bytes(b))).collect(),
            Self::Words { low, .. } => low.iter().map(|word| value(*word)).collect(),
        }
    }

    fn i128s(&self) -> Vec<i128> {
        match self {
            Self::Bytes(bytes) => elements(bytes).map(i128::from_le_bytes).collect(),
            Self::Words { low, high, .. } => (low.iter().zip(*high))
                .map(|(low, high)| ((u128::from(*high) << 64) | u128::from(*low)) as i128)
                .collect(),
        }
    }
}

/// Values of `N` bytes each.
fn elements<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks::<N>().0.iter().copied()
}
