//! How wide the codes of a column are.

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
}
