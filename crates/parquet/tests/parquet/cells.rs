//! Values of a column in a form that both readers are converted to.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use galatea_device::{DeviceBuffer, Stream};
use galatea_kernels::ParquetForm;
use galatea_parquet::{DecodedColumn, DecodedStrings, DecodedValues, Offsets};

/// A value. Floats are their bits as `f64`; all NaN are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Integer(i128),
    Float(u64),
    Bytes(Vec<u8>),
}

fn float(value: f64) -> Cell {
    Cell::Float(if value.is_nan() { u64::MAX } else { value.to_bits() })
}

/// The integer of little-endian bytes.
fn integer(bytes: &[u8], signed: bool) -> i128 {
    let negative = signed && bytes.last().is_some_and(|byte| *byte >= 128);
    let mut wide = [if negative { 255 } else { 0 }; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(wide)
}

/// The cells of Arrow arrays.
pub(crate) fn of_arrays(arrays: &[ArrayRef]) -> Vec<Cell> {
    arrays.iter().flat_map(of_array).collect()
}

fn of_array(array: &ArrayRef) -> Vec<Cell> {
    let cell: Box<dyn Fn(usize) -> Cell> = match array.data_type() {
        DataType::Boolean => {
            let array = array.as_boolean();
            Box::new(|row| Cell::Integer(array.value(row).into()))
        }
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            Box::new(|row| Cell::Bytes(array.value(row).into()))
        }
        DataType::Binary => {
            let array = array.as_binary::<i32>();
            Box::new(|row| Cell::Bytes(array.value(row).into()))
        }
        DataType::Float16 => {
            let array = array.as_primitive::<arrow::datatypes::Float16Type>();
            Box::new(|row| float(array.value(row).to_f64()))
        }
        DataType::Float32 => {
            let array = array.as_primitive::<arrow::datatypes::Float32Type>();
            Box::new(|row| float(array.value(row).into()))
        }
        DataType::Float64 => {
            let array = array.as_primitive::<arrow::datatypes::Float64Type>();
            Box::new(|row| float(array.value(row)))
        }
        kind => {
            let width = kind.primitive_width().unwrap_or_else(|| panic!("type {kind}"));
            let signed = !kind.is_unsigned_integer();
            let data = array.to_data();
            Box::new(move |row| {
                let at = (data.offset() + row) * width;
                Cell::Integer(integer(&data.buffers()[0][at..at + width], signed))
            })
        }
    };
    (0..array.len())
        .map(|row| if array.is_null(row) { Cell::Null } else { cell(row) })
        .collect()
}

fn strings(stream: &Stream, strings: &DecodedStrings) -> Vec<Vec<u8>> {
    let offsets: Vec<u64> = match &strings.offsets {
        Offsets::Narrow(offsets) => stream
            .read(offsets, ..)
            .unwrap()
            .into_iter()
            .map(u64::from)
            .collect(),
        Offsets::Wide(offsets) => stream.read(offsets, ..).unwrap(),
    };
    let bytes = stream.read(&strings.bytes, ..).unwrap();
    offsets
        .windows(2)
        .map(|ends| bytes[ends[0] as usize..ends[1] as usize].to_vec())
        .collect()
}

/// Whether each row is valid.
pub(crate) fn validity(stream: &Stream, column: &DecodedColumn) -> Vec<bool> {
    let Some(words) = &column.validity else {
        return vec![true; column.rows];
    };
    let words = stream.read(words, ..).unwrap();
    (0..column.rows)
        .map(|row| words[row / 32] >> (row % 32) & 1 == 1)
        .collect()
}

/// The indices of a decoded column.
pub(crate) fn indices(stream: &Stream, indices: &DeviceBuffer<u8>) -> Vec<u32> {
    let bytes = stream.read(indices, ..).unwrap();
    bytes
        .chunks(4)
        .map(|index| u32::from_le_bytes(index.try_into().unwrap()))
        .collect()
}

/// The cells of a decoded column.
pub(crate) fn of_column(stream: &Stream, column: &DecodedColumn, unsigned: bool) -> Vec<Cell> {
    let values: Vec<Cell> = match &column.values {
        DecodedValues::Strings(found) => strings(stream, found).into_iter().map(Cell::Bytes).collect(),
        DecodedValues::Indices {
            indices: found,
            dictionary,
            dictionary_values,
        } => {
            let dictionary = strings(stream, dictionary);
            assert_eq!(dictionary.len(), *dictionary_values);
            let string = |index: u32| dictionary.get(index as usize).cloned().unwrap_or_default();
            indices(stream, found)
                .into_iter()
                .map(|index| Cell::Bytes(string(index)))
                .collect()
        }
        DecodedValues::Fixed { form, values, .. } => {
            let bytes = stream.read(values, ..).unwrap();
            let cell = |value: &[u8]| match form {
                ParquetForm::Float | ParquetForm::Half => {
                    float(f32::from_le_bytes(value.try_into().unwrap()).into())
                }
                ParquetForm::Double => float(f64::from_le_bytes(value.try_into().unwrap())),
                ParquetForm::Boolean => Cell::Integer(value[0].into()),
                _ => Cell::Integer(integer(value, !unsigned)),
            };
            bytes.chunks(form.width()).map(cell).collect()
        }
    };
    assert_eq!(values.len(), column.rows);
    let valid = validity(stream, column);
    let nulls = valid.iter().filter(|valid| !**valid).count();
    assert_eq!(nulls as u64, column.null_count);
    values
        .into_iter()
        .zip(valid)
        .map(|(cell, valid)| if valid { cell } else { Cell::Null })
        .collect()
}
