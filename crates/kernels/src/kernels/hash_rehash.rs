//! Growing a group hash table between launches of a pipeline.

use galatea_device::{DevicePointer, Geometry, In, InOut, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::group_table::{GroupTableView, SlotLayout};
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `hash_rehash`.
    pub struct HashRehashArguments in "galatea/args/hash_rehash.h" {
        /// The table to fill.
        pub to: GroupTableView,
        /// The slots to read.
        pub from: DevicePointer<u64>,
        /// Number of slots to read.
        pub from_capacity: u64,
    }
}

resident_kernel! {
    /// Moves the used slots of a table to a larger one.
    HashRehash, "hash_rehash", HashRehashArguments
}

impl HashRehash {
    /// Moves the slots of `from` to `to`, which is cleared, and has a power of two of slots, enough for all
    /// of them; adds their number to `groups` (one word).
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when `groups` is not one word; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        from: In<'_, u64>,
        to: InOut<'_, u64>,
        groups: InOut<'_, u64>,
        layout: SlotLayout,
    ) -> Result<()> {
        same_length("counters of groups", 1, groups.len())?;
        let arguments = HashRehashArguments {
            to: layout.view(&to, &groups),
            from: from.pointer(),
            from_capacity: from.len() as u64 / u64::from(layout.slot_words),
        };
        let geometry = Geometry::grid_stride(arguments.from_capacity, BLOCK.into(), BLOCK, self.blocks);
        self.function.launch(
            stream,
            geometry,
            &arguments,
            &[from.reference(), to.reference(), groups.reference()],
        )
    }
}
