//! Reading a group hash table: its used slots, column by column.

use galatea_device::{DevicePointer, Geometry, In, InOut, Out, Result, Stream, kernel_arguments};

use super::BLOCK;
use crate::group_table::SlotLayout;
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `hash_collect`.
    pub struct HashCollectArguments in "galatea/args/hash_collect.h" {
        /// Table read.
        pub slots: DevicePointer<u64>,
        /// Used slots, `[slot word][place]`.
        pub groups: DevicePointer<u64>,
        /// Their number.
        pub used: DevicePointer<u64>,
        /// Slots of the table.
        pub capacity: u64,
        /// Slots `groups` has room for.
        pub room: u64,
        /// Words of a slot.
        pub slot_words: u64,
    }
}

resident_kernel! {
    /// Copies the used slots of a table into columns.
    HashCollect, "hash_collect", HashCollectArguments
}

impl HashCollect {
    /// Fills `groups`, `[slot word][place]`, with used slots; `used`, which must be zero before, receives
    /// their number, also when `groups` is too small for all of them.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(
        &self,
        stream: &Stream,
        slots: In<'_, u64>,
        groups: Out<'_, u64>,
        used: InOut<'_, u64>,
        layout: SlotLayout,
    ) -> Result<()> {
        let words = u64::from(layout.slot_words);
        let arguments = HashCollectArguments {
            slots: slots.pointer(),
            groups: groups.pointer(),
            used: used.pointer(),
            capacity: slots.len() as u64 / words,
            room: groups.len() as u64 / words,
            slot_words: words,
        };
        let geometry = Geometry::grid_stride(arguments.capacity, BLOCK.into(), BLOCK, self.blocks);
        let references = [slots.reference(), groups.reference(), used.reference()];
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
