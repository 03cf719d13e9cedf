//! Merging partial groups into a group hash table between launches of a pipeline.

use galatea_device::{Device, DevicePointer, Geometry, In, InOut, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::group_table::{GroupTableView, SlotLayout};
use crate::heap::{HeapBuild, PageChainsView};
use crate::kernel::{KernelFunction, kernel};

kernel_arguments! {
    /// Arguments of `hash_merge`.
    pub struct HashMergeArguments in "galatea/args/hash_merge.h" {
        /// The table to fill.
        pub table: GroupTableView,
        /// Partial groups.
        pub chains: PageChainsView,
        /// By accumulator word: how it is merged.
        pub merges: DevicePointer<u8>,
        /// The strings that accumulators hold positions of; null: none do.
        pub texts: DevicePointer<u64>,
        /// Receives the number of pages released.
        pub pages: DevicePointer<u64>,
    }
}

kernel!(HashMerge, "hash_merge", HashMergeArguments);

/// Merges partial groups.
#[derive(Debug, Clone)]
pub struct HashMerge {
    function: KernelFunction<Self>,
    blocks: u64,
}

impl HashMerge {
    /// Loads the kernel with the build of the heap that owns the pages.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device, build: HeapBuild) -> Result<Self> {
        let function = KernelFunction::load_with(device, build.options())?;
        let blocks = function.resident_blocks(BLOCK)?;
        Ok(Self { function, blocks })
    }

    /// Merges the rows of `chains`, key words and then accumulator words, into `slots`, which must have space
    /// for all their groups, and adds the number of new ones to `groups`. Pages are released to the heap and
    /// counted in `pages`; the chains are then empty. `merges` has a [`MergeWord`](crate::MergeWord) for
    /// every accumulator word, and `texts` is the memory of the strings that accumulators hold positions of
    /// (`interned.cuh`).
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when counters are not one word, or `merges` not one byte per
    /// word; the device's.
    #[expect(
        clippy::too_many_arguments,
        reason = "what a launch takes, by name and access"
    )]
    pub fn launch(
        &self,
        stream: &Stream,
        chains: PageChainsView,
        slots: InOut<'_, u64>,
        groups: InOut<'_, u64>,
        layout: SlotLayout,
        merges: In<'_, u8>,
        texts: Option<In<'_, u64>>,
        pages: InOut<'_, u64>,
    ) -> Result<()> {
        same_length("counters of groups", 1, groups.len())?;
        same_length("counters of pages", 1, pages.len())?;
        let words = (layout.group_words() - layout.key_words) as usize;
        same_length("merges of accumulator words", words, merges.len())?;
        let arguments = HashMergeArguments {
            table: layout.view(&slots, &groups),
            chains,
            merges: merges.pointer(),
            texts: texts.as_ref().map_or(DevicePointer::NULL, In::pointer),
            pages: pages.pointer(),
        };
        let geometry = Geometry::grid_stride(chains.count.into(), 1, BLOCK, self.blocks);
        let mut used = vec![
            slots.reference(),
            groups.reference(),
            merges.reference(),
            pages.reference(),
        ];
        used.extend(texts.iter().map(In::reference));
        self.function.launch(stream, geometry, &arguments, &used)
    }
}
