//! Definitions shared by the kernels of the radix sort: `galatea/radix_sort.cuh`.

use galatea_device::{DeviceError, Result};

/// Bits of a digit.
pub const DIGIT_BITS: u32 = 8;

/// Values of a digit.
pub const DIGIT_VALUES: usize = 1 << DIGIT_BITS;

/// Width of the keys of a sort: unsigned integers in native order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyWidth {
    /// 32 bits.
    Four,
    /// 64 bits.
    Eight,
}

impl KeyWidth {
    /// Both widths.
    pub const ALL: [Self; 2] = [Self::Four, Self::Eight];

    /// Bytes of a key.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    /// Digits of a key, each sorted by one pass.
    #[must_use]
    pub const fn digits(self) -> usize {
        self.bytes()
    }

    /// Threads of a block of a pass, and keys per thread: tuned on an H200, so that registers and shared
    /// memory suffice for two blocks per multiprocessor.
    pub(crate) const fn block(self) -> (u32, u32) {
        match self {
            Self::Four => (384, 16),
            Self::Eight => (256, 24),
        }
    }

    /// Bytes that a pass moves per key: 32-bit keys are in pairs with their ids.
    pub(crate) const fn moved_bytes(self) -> u32 {
        match self {
            Self::Four => 8,
            Self::Eight => 12,
        }
    }

    /// The definition that compiles a kernel for such keys.
    pub(crate) fn option(self) -> String {
        format!("-DGALATEA_SORT_KEY_BYTES={}", self.bytes())
    }

    /// The number of keys in `bytes` bytes.
    ///
    /// # Errors
    /// [`DeviceError::Range`] when they are not a whole number of keys.
    pub(crate) fn rows(self, bytes: usize) -> Result<u64> {
        if bytes.is_multiple_of(self.bytes()) {
            return Ok((bytes / self.bytes()) as u64);
        }
        Err(DeviceError::Range {
            what: "keys of a sort",
            start: 0,
            end: bytes.next_multiple_of(self.bytes()) as u64,
            len: bytes as u64,
        })
    }
}
