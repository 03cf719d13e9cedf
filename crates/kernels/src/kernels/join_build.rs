//! The build of a no-partitioning hash join by address.

use galatea_device::{DeviceError, DevicePointer, Geometry, Result, Stream, kernel_arguments};

use super::BLOCK;
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `join_build`; the header describes each field.
    pub struct JoinBuildArguments in "galatea/args/join_build.h" {
        /// Keys.
        pub keys: DevicePointer<u8>,
        /// Payloads.
        pub payloads: DevicePointer<u8>,
        /// Keys and payloads of the table.
        pub entries: DevicePointer<u8>,
        /// Rows.
        pub rows: u64,
        /// Slots of the table.
        pub slots: u64,
        /// Bits of a hash; 0: perfect hashing.
        pub slot_bits: u32,
        /// Bytes of a key or a payload.
        pub word_bytes: u32,
    }
}

resident_kernel! {
    /// Stores rows of two columns in a hash table.
    JoinBuild, "join_build", JoinBuildArguments
}

/// The rows of a launch of [`JoinBuild`] or [`crate::JoinProbe`]. Both columns must be valid for the duration
/// of the launch.
#[derive(Debug, Clone, Copy)]
pub struct JoinRows {
    /// Device address of the keys, a multiple of their width.
    pub keys: u64,
    /// Device address of the payloads, a multiple of their width.
    pub payloads: u64,
    /// Number of rows.
    pub rows: u64,
}

impl JoinRows {
    /// The rows of a range.
    #[must_use]
    pub fn part(self, rows: std::ops::Range<u64>, word_bytes: u32) -> Self {
        Self {
            keys: self.keys + rows.start * u64::from(word_bytes),
            payloads: self.payloads + rows.start * u64::from(word_bytes),
            rows: rows.end - rows.start,
        }
    }
}

/// The slot of a key in a join's hash table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JoinHashing {
    /// The key itself: keys are distinct and less than the number of slots. No atomic operation is needed.
    Perfect,
    /// A multiply-shift hash, and the next free slot after it; half of the slots or more stay empty.
    Linear,
}

impl JoinHashing {
    /// Name in rows of results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Perfect => "perfect",
            Self::Linear => "linear probing",
        }
    }

    /// Number of slots of a table for keys `0..rows`.
    #[must_use]
    pub fn slots(self, rows: u64) -> u64 {
        match self {
            Self::Perfect => rows.max(1),
            Self::Linear => (2 * rows).next_power_of_two().max(2),
        }
    }
}

/// A hash table in memory that kernels access by address. It must be valid for the duration of a launch. Each
/// word of an empty table is all ones.
#[derive(Debug, Clone, Copy)]
pub struct JoinTable {
    /// Device address of the first entry, a multiple of 16.
    pub address: u64,
    /// Number of entries.
    pub slots: u64,
    /// The slot of a key.
    pub hashing: JoinHashing,
    /// Bytes of a key, and of a payload: 8 or 4.
    pub word_bytes: u32,
}

impl JoinTable {
    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        2 * self.slots * u64::from(self.word_bytes)
    }

    /// The bits of a hash, 0 for perfect hashing. Checks the table.
    pub(super) fn slot_bits(&self) -> Result<u32> {
        let range = |what, end| DeviceError::Range {
            what,
            start: 0,
            end,
            len: self.slots,
        };
        if self.word_bytes != 8 && self.word_bytes != 4 {
            return Err(range("bytes of a join key", u64::from(self.word_bytes)));
        }
        match self.hashing {
            JoinHashing::Perfect => Ok(0),
            JoinHashing::Linear if self.slots < 2 || !self.slots.is_power_of_two() => Err(range(
                "slots of a hash table",
                self.slots.next_power_of_two().max(2),
            )),
            JoinHashing::Linear if self.word_bytes == 4 && self.slots > 1 << 32 => {
                Err(range("slots of a hash table with 32-bit hashes", 1 << 32))
            }
            JoinHashing::Linear => Ok(self.slots.ilog2()),
        }
    }
}

impl JoinBuild {
    /// Queues the insertion of rows. Keys are distinct, none is all ones, and with linear probing at least
    /// one slot stays empty.
    ///
    /// # Errors
    /// `DeviceError::Range` if the number of slots does not suit the hashing, or for another width; the
    /// device's.
    pub fn launch(&self, stream: &Stream, rows: JoinRows, table: &JoinTable) -> Result<()> {
        let arguments = JoinBuildArguments {
            keys: DevicePointer::new(rows.keys),
            payloads: DevicePointer::new(rows.payloads),
            entries: DevicePointer::new(table.address),
            rows: rows.rows,
            slots: table.slots,
            slot_bits: table.slot_bits()?,
            word_bytes: table.word_bytes,
        };
        let geometry = Geometry::grid_stride(rows.rows, u64::from(BLOCK), BLOCK, self.blocks);
        self.function.launch(stream, geometry, &arguments, &[])
    }
}
