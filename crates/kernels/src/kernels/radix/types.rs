//! Tuples, partitions and grids of radix kernels.

use galatea_device::{DeviceError, DevicePointer, Result};

use crate::flow::mix64;

/// The most bits by which a pass partitions.
pub const RADIX_MOST_BITS: u32 = 11;
/// Bytes of a tuple: a key and a value of 64 bits each.
pub const RADIX_TUPLE_BYTES: usize = 16;
/// Threads of most blocks.
pub(super) const THREADS: u32 = 1024;
/// Bytes of shared memory of a block that are not dynamic: static arrays of kernels.
pub(super) const STATIC_SHARED: u32 = 1 << 10;

/// The bits of a tuple that determine its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RadixBits {
    /// First bit.
    pub shift: u32,
    /// Number of bits, at most [`RADIX_MOST_BITS`].
    pub bits: u32,
    /// Whether they are bits of the key, as in the thesis' code, instead of bits of its hash.
    pub raw: bool,
}

impl RadixBits {
    /// Number of partitions.
    #[must_use]
    pub fn parts(&self) -> usize {
        1 << self.bits
    }

    /// The partition of a key.
    #[inline]
    #[must_use]
    pub fn part(&self, key: u64) -> usize {
        let hash = if self.raw { key } else { mix64(key) };
        (hash >> self.shift) as usize & (self.parts() - 1)
    }
}

/// The values of tuples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RadixValues {
    /// Each key is followed by its value.
    Rows,
    /// Address of a column, 16-byte aligned.
    Column(u64),
    /// The number of the tuple, if the first one has this number.
    Numbers(u64),
}

/// Tuples in any memory that kernels can access.
#[derive(Debug, Clone, Copy)]
pub struct RadixTuples {
    /// Address of a column of keys, or of rows; 16-byte aligned.
    pub keys: u64,
    /// Their values.
    pub values: RadixValues,
    /// Number of tuples.
    pub count: u64,
}

/// Room for rows in any memory that kernels can access.
#[derive(Debug, Clone, Copy)]
pub enum RadixRows {
    /// Address of an array, 128-byte aligned.
    Array(u64),
    /// Pages of 2^`bits` rows each, at the addresses in device memory at `addresses`.
    Pages {
        /// Device address of the addresses.
        addresses: u64,
        /// Bits of a row's position in its page.
        bits: u32,
    },
}

impl RadixRows {
    /// The array, the addresses of pages, and the bits of a position in a page.
    pub(super) fn fields(self) -> (DevicePointer<u64>, DevicePointer<u64>, u32) {
        match self {
            Self::Array(rows) => (DevicePointer::new(rows), DevicePointer::NULL, 0),
            Self::Pages { addresses, bits } => (DevicePointer::NULL, DevicePointer::new(addresses), bits),
        }
    }
}

/// The blocks of a pass, and their tuples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RadixGrid {
    /// Number of blocks.
    pub blocks: u32,
    /// Consecutive tuples of a block, an even number.
    pub per_block: u64,
}

impl RadixGrid {
    /// Divides tuples evenly among at most `most` blocks, each with a few tuples for each thread.
    #[must_use]
    pub fn new(count: u64, most: u32) -> Self {
        let blocks = count.div_ceil(2048).clamp(1, u64::from(most.max(1)));
        let per_block = count.div_ceil(blocks).next_multiple_of(128).max(128);
        Self {
            blocks: count.div_ceil(per_block).max(1) as u32,
            per_block,
        }
    }
}

/// Consecutive rows of a partition, in any memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct RadixSlice {
    /// Address of the first.
    pub rows: u64,
    /// Position among the rows of the partition.
    pub first: u32,
    /// Number of rows.
    pub count: u32,
}

// SAFETY: repr(C), integers only.
unsafe impl bytemuck::Zeroable for RadixSlice {}
// SAFETY: repr(C), integers of any value, and no padding: 8 + 4 + 4 bytes with alignment 8.
unsafe impl bytemuck::Pod for RadixSlice {}

pub(super) fn checked(tuples: &RadixTuples, bits: RadixBits) -> Result<()> {
    for (what, asked, limit) in [
        ("tuples of a partitioning", tuples.count, u64::from(u32::MAX)),
        ("bits of a partitioning", bits.bits.into(), RADIX_MOST_BITS.into()),
        ("bits of a hash", u64::from(bits.shift + bits.bits), 63),
    ] {
        if asked > limit {
            return Err(DeviceError::Range {
                what,
                start: 0,
                end: asked,
                len: limit,
            });
        }
    }
    Ok(())
}
