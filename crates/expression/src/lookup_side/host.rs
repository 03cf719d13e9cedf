//! Rows of a build side on the host, in arrays by key.

use super::{Keys, Payload, Table};
use crate::built::PayloadKind;
use crate::dictionary::{Bytes, CodedStrings, ranked};
use crate::interval::{Interval, domain};
use crate::string::is_string;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{ArrowNativeType, DataType, Float32Type, Float64Type};
use galatea_base::reason::Reason;
use std::sync::Arc;

/// The index of every row.
pub(super) struct Indexed {
    pub(super) keys: Keys,
    /// Number of indices.
    pub(super) size: u64,
    pub(super) of_rows: Vec<Option<u32>>,
}

impl Indexed {
    pub(super) fn new(name: &str, keys: &ArrayRef) -> Result<Self, Reason> {
        if is_string(keys.data_type()) {
            let bytes = Bytes::of(keys)?;
            let (values, ranks) = ranked(&[&bytes], keys.data_type())?;
            let of_rows = (ranks[0].iter().enumerate())
                .map(|(row, rank)| bytes.get(row).map(|_| *rank))
                .collect();
            return Ok(Self {
                size: values.len() as u64,
                keys: if values.is_empty() {
                    Keys::Nothing
                } else {
                    Keys::Strings(CodedStrings(values))
                },
                of_rows,
            });
        }
        let numbers = integers(keys, name)?;
        let Some(interval) = hull(&numbers) else {
            return Ok(Self {
                keys: Keys::Nothing,
                size: 0,
                of_rows: vec![None; numbers.len()],
            });
        };
        let size = interval.high.wrapping_sub(interval.low) as u128 + 1;
        // If the size is refused, the indices are not used.
        let index = |number: i128| number.wrapping_sub(interval.low) as u32;
        Ok(Self {
            keys: Keys::Integers(interval),
            size: u64::try_from(size).unwrap_or(u64::MAX),
            of_rows: numbers.into_iter().map(|number| number.map(index)).collect(),
        })
    }

    /// The values by index; `filler` for indices without a row.
    fn arranged<T: Clone>(&self, filler: T, value: impl Fn(usize) -> Option<T>) -> Vec<T> {
        // An empty build side has one entry, so that index 0 can always be read.
        let mut entries = vec![filler; self.size.max(1) as usize];
        for (row, index) in self.of_rows.iter().enumerate() {
            if let (Some(index), Some(value)) = (index, value(row)) {
                entries[*index as usize] = value;
            }
        }
        entries
    }
}

impl Payload {
    pub(super) fn new(array: &ArrayRef, indexed: &Indexed) -> Result<Self, Reason> {
        let data_type = array.data_type();
        let valid = |row: usize| array.is_valid(row);
        let (values, (c_type, table)) = if is_string(data_type) {
            let bytes = Bytes::of(array)?;
            let (values, mut ranks) = ranked(&[&bytes], data_type)?;
            let ranks = ranks.swap_remove(0);
            let high = values.len().saturating_sub(1) as i128;
            let numbers = indexed.arranged(0, |row| Some(i128::from(ranks[row])));
            (
                PayloadKind::Code(CodedStrings(values)),
                narrowest(&numbers, Interval { low: 0, high }),
            )
        } else {
            match data_type {
                DataType::Boolean => {
                    let array = array.as_boolean();
                    let bytes = indexed.arranged(0, |row| (valid(row) && array.value(row)).then_some(1));
                    (PayloadKind::Boolean, ("u8", Arc::from(bytes)))
                }
                DataType::Float32 => {
                    let array = array.as_primitive::<Float32Type>();
                    let values = indexed.arranged(0.0, |row| valid(row).then(|| array.value(row)));
                    (
                        PayloadKind::Float32,
                        ("float", Arc::from(bytemuck::cast_slice(&values))),
                    )
                }
                DataType::Float64 => {
                    let array = array.as_primitive::<Float64Type>();
                    let values = indexed.arranged(0.0, |row| valid(row).then(|| array.value(row)));
                    (
                        PayloadKind::Float64,
                        ("double", Arc::from(bytemuck::cast_slice(&values))),
                    )
                }
                _ => {
                    let numbers = integers(array, "a column of a build side")?;
                    let interval = hull(&numbers).unwrap_or(Interval::point(0));
                    let numbers = indexed.arranged(interval.low, |row| numbers[row]);
                    (PayloadKind::Integer(interval), narrowest(&numbers, interval))
                }
            }
        };
        let mut nulls = Bits::new(indexed.size);
        for (row, index) in indexed.of_rows.iter().enumerate() {
            if let (Some(index), true) = (index, array.is_null(row)) {
                nulls.set(*index);
            }
        }
        Ok(Self {
            values,
            c_type,
            table: Table::Host(table),
            nulls: (nulls.ones > 0).then(|| Table::Host(nulls.words())),
        })
    }
}

/// Bits by index, in little-endian words of 32.
pub(super) struct Bits {
    bytes: Vec<u8>,
    pub(super) ones: u64,
}

impl Bits {
    pub(super) fn new(size: u64) -> Self {
        Self {
            bytes: vec![0; (size.max(1).div_ceil(32) * 4) as usize],
            ones: 0,
        }
    }

    /// Sets a bit; returns whether it was already set.
    pub(super) fn set(&mut self, index: u32) -> bool {
        let (byte, bit) = (&mut self.bytes[index as usize / 8], 1 << (index % 8));
        let known = *byte & bit != 0;
        *byte |= bit;
        self.ones += u64::from(!known);
        known
    }

    pub(super) fn words(self) -> Arc<[u8]> {
        self.bytes.into()
    }
}

/// The smallest interval that contains the numbers.
fn hull(numbers: &[Option<i128>]) -> Option<Interval> {
    let known = || numbers.iter().flatten().copied();
    Some(Interval {
        low: known().min()?,
        high: known().max()?,
    })
}

/// Numbers as a table of the narrowest C++ type that holds the interval.
fn narrowest(numbers: &[i128], interval: Interval) -> (&'static str, Arc<[u8]>) {
    let (c_type, width) = interval.table_type();
    let mut bytes = Vec::with_capacity(numbers.len() * width);
    for number in numbers {
        bytes.extend_from_slice(&number.to_le_bytes()[..width]);
    }
    (c_type, bytes.into())
}

/// The integers that Arrow stores for values of an integer-like type.
pub(crate) fn integers(array: &ArrayRef, place: &str) -> Result<Vec<Option<i128>>, Reason> {
    fn typed<T: ArrowNativeType + Into<i128>>(array: &ArrayRef) -> Vec<Option<i128>> {
        let data = array.to_data();
        let values = ScalarBuffer::<T>::new(data.buffers()[0].clone(), data.offset(), data.len());
        let number = |row: usize| array.is_valid(row).then(|| values[row].into());
        (0..array.len()).map(number).collect()
    }
    let refuse = || Reason::Type {
        data_type: array.data_type().clone(),
        place: place.to_owned(),
    };
    let domain = domain(array.data_type()).ok_or_else(refuse)?;
    Ok(match (array.data_type().primitive_width(), domain.low < 0) {
        (Some(1), true) => typed::<i8>(array),
        (Some(2), true) => typed::<i16>(array),
        (Some(4), true) => typed::<i32>(array),
        (Some(8), true) => typed::<i64>(array),
        (Some(16), true) => typed::<i128>(array),
        (Some(1), false) => typed::<u8>(array),
        (Some(2), false) => typed::<u16>(array),
        (Some(4), false) => typed::<u32>(array),
        (Some(8), false) => typed::<u64>(array),
        _ => return Err(refuse()),
    })
}
