//! A pass of sorting strings.

use galatea_device::{DevicePointer, Geometry, In, Out, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `string_sort`.
    pub struct StringSortArguments in "galatea/args/string_sort.h" {
        /// The strings (`interned.cuh`).
        pub memory: DevicePointer<u64>,
        /// Positions of strings, in runs.
        pub from: DevicePointer<u64>,
        /// The same in longer runs.
        pub to: DevicePointer<u64>,
        /// Number of strings.
        pub count: u64,
        /// Strings of a run; 0: unsorted.
        pub width: u64,
    }
}

resident_kernel! {
    /// Creates sorted runs of strings, or merges them in pairs.
    StringSort, "string_sort", StringSortArguments
}

impl StringSort {
    /// Length of the runs that the first pass creates, and number of outputs of a thread.
    pub const RUN: u64 = 8;

    /// Writes `from`, distinct strings by their positions in `memory` (`interned.cuh`), to `to` in runs in
    /// the order of their bytes: of length [`Self::RUN`] if `width` is 0, and else of twice `width`, the
    /// length of the runs in `from`. The first pass clears the bits above those of a position.
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
        same_length("addresses of strings in order", from.len(), to.len())?;
        let arguments = StringSortArguments {
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
