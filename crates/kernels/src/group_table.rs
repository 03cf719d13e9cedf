//! The group hash table in kernel arguments; its structure is documented in `cuda/galatea/hash_table.cuh`.

use galatea_device::{DevicePointer, InOut, kernel_arguments};

kernel_arguments! {
    /// A group hash table, by value in kernel arguments; `GroupTableView` in `galatea/hash_table.cuh`.
    pub struct GroupTableView in "galatea/hash_table.cuh" {
        /// The slots.
        pub slots: DevicePointer<u64>,
        /// The number of groups.
        pub groups: DevicePointer<u64>,
        /// Slots, a power of two.
        pub capacity: u64,
        /// Words of a slot.
        pub slot_words: u32,
        /// Words of a key.
        pub key_words: u32,
        /// 1 if every hash is zero.
        pub collide: u32,
        /// Unused.
        pub padding: u32,
    }
}

/// The shape of a slot of a group hash table, and how its keys are hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotLayout {
    /// Words of a slot: state of several key words, key, accumulators.
    pub slot_words: u32,
    /// Words of its key.
    pub key_words: u32,
    /// Whether every hash is zero, for tests.
    pub collide: bool,
}

impl SlotLayout {
    /// Words of a slot after its state: those of a partial group.
    #[must_use]
    pub fn group_words(&self) -> u32 {
        self.slot_words - u32::from(self.key_words > 1)
    }

    pub(crate) fn view(&self, slots: &InOut<'_, u64>, groups: &InOut<'_, u64>) -> GroupTableView {
        GroupTableView {
            slots: slots.pointer(),
            groups: groups.pointer(),
            capacity: slots.len() as u64 / u64::from(self.slot_words),
            slot_words: self.slot_words,
            key_words: self.key_words,
            collide: self.collide.into(),
            padding: 0,
        }
    }
}

/// How an accumulator word merges; the numbers are those of `Merge` in `galatea/aggregate.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum MergeWord {
    /// 64-bit sum.
    Sum64 = 0,
    /// Low word of a 128-bit sum.
    Sum128 = 1,
    /// Sum of doubles.
    SumF64 = 3,
    /// Unsigned maximum.
    Max64 = 4,
    /// Bits that are set in any value.
    Or64 = 5,
    /// Bits that are set in an odd number of values.
    Xor64 = 6,
    /// Position of the least string.
    LeastString = 7,
    /// Position of the greatest string.
    GreatestString = 8,
    /// High word of the sum before it.
    High = 255,
}
