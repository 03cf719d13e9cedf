//! A pass over texts that are sorted.

use galatea_device::{DevicePointer, Geometry, In, Out, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `text_sort`.
    pub struct TextSortArguments in "galatea/args/text_sort.h" {
        /// The texts (`interned.cuh`).
        pub memory: DevicePointer<u64>,
        /// Places of texts, in runs.
        pub from: DevicePointer<u64>,
        /// The same in longer runs.
        pub to: DevicePointer<u64>,
        /// Their number.
        pub count: u64,
        /// Texts of a run; 0: they are in none.
        pub width: u64,
    }
}

resident_kernel! {
    /// Makes runs of texts in order, or merges them two by two.
    TextSort, "text_sort", TextSortArguments
}

impl TextSort {
    /// Texts of the runs that the first pass makes, and of the output of a thread.
    pub const RUN: u64 = 8;

    /// Writes `from`, distinct texts by their places in `memory` (`interned.cuh`), to `to` in runs that are
    /// in the order of their bytes: of [`Self::RUN`] where `width` is 0, and else of twice as many as
    /// `width`, the length of the runs that `from` is in. Bits above those of a place are cleared by the
    /// first pass.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when `from` and `to` differ in length; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        memory: In<'_, u64>,
        from: In<'_, u64>,
        to: Out<'_, u64>,
        width: u64,
    ) -> Result<()> {
        same_length("places of texts in order", from.len(), to.len())?;
        let arguments = TextSortArguments {
            memory: memory.pointer(),
            from: from.pointer(),
            to: to.pointer(),
            count: from.len() as u64,
            width,
        };
        let threads = arguments.count.div_ceil(Self::RUN);
        let geometry = Geometry::grid_stride(threads, BLOCK.into(), BLOCK, self.blocks);
        let references = [memory.reference(), from.reference(), to.reference()];
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
