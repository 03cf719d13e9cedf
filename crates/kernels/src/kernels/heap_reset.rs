//! Initialising a heap with given free pages.

use galatea_device::{DevicePointer, Geometry, In, Result, Stream, kernel_arguments};

use super::BLOCK;
use crate::heap::{HeapView, PageSearch};
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `heap_reset`.
    pub struct HeapResetArguments in "galatea/args/heap_reset.h" {
        /// The heap; everything except its bitmap is cleared.
        pub heap: HeapView,
        /// A bit per page, 1 = free; null: all are free.
        pub free: DevicePointer<u64>,
        /// Initial values of the search's own words.
        pub own: u32,
        /// Unused.
        pub padding: u32,
    }
}

resident_kernel! {
    /// Writes the bitmap, the balances, the summary and the search's words of a heap.
    HeapReset, "heap_reset", HeapResetArguments
}

impl HeapReset {
    /// Frees the pages with a bit of 1 in `free`, or all. Balances, summary, status and the search's words
    /// must be zero.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(
        &self,
        stream: &Stream,
        heap: HeapView,
        search: PageSearch,
        free: Option<In<'_, u64>>,
    ) -> Result<()> {
        let arguments = HeapResetArguments {
            heap,
            free: free.as_ref().map_or(DevicePointer::NULL, In::pointer),
            own: match search {
                PageSearch::RandomWalk => 1,
                PageSearch::Queue => 2,
                _ => 0,
            },
            padding: 0,
        };
        let threads = u64::from(heap.superblocks).next_multiple_of(128) * 32;
        let geometry = Geometry::grid_stride(threads, BLOCK.into(), BLOCK, self.blocks);
        let references: Vec<_> = free.iter().map(In::reference).collect();
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
