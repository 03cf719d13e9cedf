//! Growing a group hash table between launches of a pipeline.

use galatea_device::{Device, DevicePointer, Geometry, In, InOut, Result, Stream, kernel_arguments};

use super::BLOCK;
use crate::kernel::{KernelFunction, kernel};

kernel_arguments! {
    /// Arguments of `hash_rehash`.
    pub struct HashRehashArguments in "galatea/args/hash_rehash.h" {
        /// Table read.
        pub from: DevicePointer<u64>,
        /// Table filled.
        pub to: DevicePointer<u64>,
        /// Slots of `from`.
        pub from_capacity: u64,
        /// Slots of `to`.
        pub to_capacity: u64,
        /// Words of a slot.
        pub slot_words: u32,
        /// Words of a key.
        pub key_words: u32,
        /// 1 when a state word precedes the key.
        pub has_state: u32,
        /// 1 when every hash is zero.
        pub collide: u32,
    }
}

kernel!(HashRehash, "hash_rehash", HashRehashArguments);

/// The shape of a slot of a group hash table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotLayout {
    /// Words of a slot: state, key, accumulators.
    pub slot_words: u32,
    /// Words of its key.
    pub key_words: u32,
    /// Whether a state word precedes the key.
    pub has_state: bool,
}

/// Moves the used slots of a table to a larger one.
#[derive(Debug, Clone)]
pub struct HashRehash {
    function: KernelFunction<Self>,
    blocks: u64,
}

impl HashRehash {
    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device) -> Result<Self> {
        let function = KernelFunction::load(device)?;
        let blocks = function.resident_blocks(BLOCK)?;
        Ok(Self { function, blocks })
    }

    /// Moves the slots of `from` to `to`, which is cleared, and a power of two of slots with room for all. `collide`:
    /// the pipeline's hashes are all zero.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(
        &self,
        stream: &Stream,
        from: In<'_, u64>,
        to: InOut<'_, u64>,
        layout: SlotLayout,
        collide: bool,
    ) -> Result<()> {
        let slots = |words: usize| words as u64 / u64::from(layout.slot_words);
        let arguments = HashRehashArguments {
            from: from.pointer(),
            to: to.pointer(),
            from_capacity: slots(from.len()),
            to_capacity: slots(to.len()),
            slot_words: layout.slot_words,
            key_words: layout.key_words,
            has_state: layout.has_state.into(),
            collide: collide.into(),
        };
        let geometry = Geometry::grid_stride(arguments.from_capacity, BLOCK.into(), BLOCK, self.blocks);
        self.function
            .launch(stream, geometry, &arguments, &[from.reference(), to.reference()])
    }
}
