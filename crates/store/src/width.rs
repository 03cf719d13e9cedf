//! Widths of the codes of a column.

use std::ops::Range;

use bytemuck::Pod;

/// Bytes per code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Width {
    /// No data at all: every code is 0.
    Zero,
    /// `u8` codes.
    One,
    /// `u16` codes.
    Two,
    /// `u32` codes.
    Four,
    /// `u64` codes.
    Eight,
}

impl Width {
    /// Bytes per code: 0, 1, 2, 4 or 8.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Zero => 0,
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    /// The narrowest width that holds codes `0..=maximum`.
    pub const fn for_maximum(maximum: u64) -> Self {
        match maximum {
            0 => Self::Zero,
            1..=0xff => Self::One,
            0x100..=0xffff => Self::Two,
            0x1_0000..=0xffff_ffff => Self::Four,
            _ => Self::Eight,
        }
    }

    /// Calls `visit` with each row in the range and its code, for plain codes.
    #[inline(always)]
    pub(crate) fn for_each_code(self, data: &[u8], rows: Range<usize>, mut visit: impl FnMut(usize, u64)) {
        fn each<C: Pod + Into<u64>>(data: &[u8], rows: Range<usize>, mut visit: impl FnMut(usize, u64)) {
            let codes: &[C] = &bytemuck::cast_slice(data)[rows];
            codes
                .iter()
                .enumerate()
                .for_each(|(row, code)| visit(row, (*code).into()));
        }
        match self {
            Self::Zero => (0..rows.len()).for_each(|row| visit(row, 0)),
            Self::One => each::<u8>(data, rows, visit),
            Self::Two => each::<u16>(data, rows, visit),
            Self::Four => each::<u32>(data, rows, visit),
            Self::Eight => each::<u64>(data, rows, visit),
        }
    }
}
