//! Values stored as they are: booleans, floats, and decimals too large for a frame of reference.

use arrow::array::{Array, BooleanArray};
use half::f16;

use super::integer::Piece;
use crate::column::{Scalar, Zone};

/// Booleans of one chunk: one byte per row, 0 for null rows.
#[derive(Debug)]
pub(crate) struct LocalBooleans {
    pub(crate) values: Vec<u8>,
    pub(crate) any_false: bool,
    pub(crate) any_true: bool,
}

pub(crate) fn encode_booleans(pieces: &[&BooleanArray], rows: usize) -> LocalBooleans {
    let mut values = Vec::with_capacity(rows);
    let (mut trues, mut valid) = (0, 0);
    for piece in pieces {
        let bits = match piece.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => piece.values().clone(),
            Some(nulls) => piece.values() & nulls.inner(),
        };
        trues += bits.count_set_bits();
        valid += piece.len() - piece.null_count();
        let end = values.len() + piece.len();
        for word in bits.bit_chunks().iter_padded() {
            let mut bytes = [0u8; 64];
            for (row, byte) in bytes.iter_mut().enumerate() {
                *byte = (word >> row & 1) as u8;
            }
            values.extend_from_slice(&bytes[..bytes.len().min(end - values.len())]);
        }
    }
    LocalBooleans {
        values,
        any_false: trues < valid,
        any_true: trues > 0,
    }
}

/// Floats of one chunk; 0 for null rows.
#[derive(Debug)]
pub(crate) struct LocalFloats<T> {
    pub(crate) values: Vec<T>,
    pub(crate) range: Option<(f64, f64)>,
    pub(crate) has_nan: bool,
}

/// A float that is stored as `Stored`.
pub(crate) trait Float: Copy + Send + Sync + 'static {
    /// The stored type.
    type Stored: bytemuck::Pod + Into<f64> + Send + Sync;
    /// Zero.
    const ZERO: Self;
    fn store(self) -> Self::Stored;
    /// A key that orders floats by IEEE total order.
    fn key(self) -> i64;
    fn is_nan(self) -> bool;
    fn from_key(key: i64) -> f64;
}

impl Float for f64 {
    type Stored = Self;
    const ZERO: Self = 0.0;
    fn store(self) -> Self {
        self
    }
    #[inline(always)]
    fn key(self) -> i64 {
        let bits = self.to_bits() as i64;
        bits ^ ((bits >> 63) as u64 >> 1) as i64
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        Self::is_nan(self)
    }
    fn from_key(key: i64) -> f64 {
        Self::from_bits((key ^ ((key >> 63) as u64 >> 1) as i64) as u64)
    }
}

impl Float for f32 {
    type Stored = Self;
    const ZERO: Self = 0.0;
    fn store(self) -> Self {
        self
    }
    #[inline(always)]
    fn key(self) -> i64 {
        let bits = self.to_bits() as i32;
        i64::from(bits ^ ((bits >> 31) as u32 >> 1) as i32)
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        Self::is_nan(self)
    }
    fn from_key(key: i64) -> f64 {
        let key = key as i32;
        f64::from(Self::from_bits((key ^ ((key >> 31) as u32 >> 1) as i32) as u32))
    }
}

impl Float for f16 {
    type Stored = f32;
    const ZERO: Self = Self::ZERO;
    fn store(self) -> f32 {
        self.to_f32()
    }
    fn key(self) -> i64 {
        self.to_f32().key()
    }
    fn is_nan(self) -> bool {
        Self::is_nan(self)
    }
    fn from_key(key: i64) -> f64 {
        f32::from_key(key)
    }
}

pub(crate) fn encode_floats<T: Float>(pieces: &[Piece<'_, T>], rows: usize) -> LocalFloats<T::Stored> {
    let mut values = Vec::with_capacity(rows);
    let (mut minimum, mut maximum) = (i64::MAX, i64::MIN);
    let mut has_nan = false;
    for piece in pieces {
        piece.for_each_block(T::ZERO, |block| {
            values.extend(block.iter().map(|value| value.store()));
        });
        let mut visit = |value: &T| {
            let nan = value.is_nan();
            has_nan |= nan;
            minimum = minimum.min(if nan { i64::MAX } else { value.key() });
            maximum = maximum.max(if nan { i64::MIN } else { value.key() });
        };
        match piece.nulls {
            None => piece.values.iter().for_each(visit),
            Some(nulls) => nulls.valid_indices().for_each(|row| visit(&piece.values[row])),
        }
    }
    // No number has the key i64::MAX, which is a NaN's. The bounds therefore cross only without any number.
    let range = (minimum <= maximum).then(|| (T::from_key(minimum), T::from_key(maximum)));
    LocalFloats {
        values,
        range,
        has_nan,
    }
}

/// 128-bit decimals of one chunk; 0 for null rows.
#[derive(Debug)]
pub(crate) struct LocalDecimals {
    pub(crate) values: Vec<i128>,
    pub(crate) range: Option<(i128, i128)>,
}

pub(crate) fn encode_decimals(
    pieces: &[Piece<'_, i128>],
    rows: usize,
    range: Option<(i128, i128)>,
) -> LocalDecimals {
    let mut values = Vec::with_capacity(rows);
    for piece in pieces {
        piece.for_each_block(0, |block| values.extend_from_slice(block));
    }
    LocalDecimals { values, range }
}

/// The zone of integers or booleans.
pub(crate) fn integer_zone(range: Option<(i128, i128)>, null_count: u32) -> Zone {
    Zone {
        min: range.map(|(minimum, _)| Scalar::Integer(minimum)),
        max: range.map(|(_, maximum)| Scalar::Integer(maximum)),
        null_count,
        has_nan: false,
        exact: true,
    }
}

/// The zone of floats.
pub(crate) fn float_zone(range: Option<(f64, f64)>, has_nan: bool, null_count: u32) -> Zone {
    Zone {
        min: range.map(|(minimum, _)| Scalar::Float(minimum)),
        max: range.map(|(_, maximum)| Scalar::Float(maximum)),
        null_count,
        has_nan,
        exact: true,
    }
}
