//! Counting a heap's free pages, and checking that its figures are consistent.

use galatea_device::{DevicePointer, Geometry, InOut, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::heap::{HeapView, PageSearch};
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `heap_verify`.
    pub struct HeapVerifyArguments in "galatea/args/heap_verify.h" {
        /// The heap, which must not be in use by a kernel.
        pub heap: HeapView,
        /// Receives [`HeapCounts`].
        pub result: DevicePointer<u64>,
        /// 1: flags mark free pages.
        pub flags: u32,
        /// 1: balances and summary are maintained.
        pub balances: u32,
    }
}

/// The kernel's counts, in the order of its result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeapCounts {
    /// Free pages.
    pub free: u64,
    /// Free pages according to the balances; 0 for searches without balances.
    pub balance: u64,
    /// Superblocks with a balance other than the number of their free pages.
    pub wrong_balances: u64,
    /// Superblocks with free pages that are not in the summary.
    pub unannounced: u64,
    /// Free bits after the last page.
    pub stray: u64,
}

impl HeapCounts {
    /// Words of the result.
    pub const WORDS: usize = 5;

    /// Constructs it from the words of the result.
    #[must_use]
    pub fn from_words(words: [u64; Self::WORDS]) -> Self {
        let [free, balance, wrong_balances, unannounced, stray] = words;
        Self {
            free,
            balance,
            wrong_balances,
            unannounced,
            stray,
        }
    }
}

resident_kernel! {
    /// Counts free pages and checks consistency.
    HeapVerify, "heap_verify", HeapVerifyArguments
}

impl HeapVerify {
    /// Adds to `result`, which is [`HeapCounts::WORDS`] zeros before.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when `result` is of another length; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        heap: HeapView,
        search: PageSearch,
        result: InOut<'_, u64>,
    ) -> Result<()> {
        same_length("words of the heap's counts", HeapCounts::WORDS, result.len())?;
        let arguments = HeapVerifyArguments {
            heap,
            result: result.pointer(),
            flags: (search == PageSearch::RandomWalk).into(),
            balances: (search == PageSearch::Window).into(),
        };
        let threads = u64::from(heap.superblocks) * 32;
        let geometry = Geometry::grid_stride(threads, BLOCK.into(), BLOCK, self.blocks);
        self.function
            .launch(stream, geometry, &arguments, &[result.reference()])
    }
}
