//! The first place of each run of a window's order.

use galatea_device::{DevicePointer, Geometry, In, Out, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `window_starts`.
    pub struct WindowStartsArguments in "galatea/args/window_starts.h" {
        /// By place the runs that begin before it; one more: all.
        pub sums: DevicePointer<u32>,
        /// The first place of each run, and the number of places.
        pub starts: DevicePointer<u32>,
        /// Places.
        pub rows: u64,
    }
}

resident_kernel! {
    /// Writes the first place of each run of places.
    WindowStarts, "window_starts", WindowStartsArguments
}

impl WindowStarts {
    /// Writes to `starts[r]` the first place of run `r`, and behind the last one the number of places, where
    /// `sums` are the runs that begin before each place, and last all of them. There are no more runs than
    /// places.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when `sums` is empty, or starts and sums differ in length; the
    /// device's.
    pub fn launch(&self, stream: &Stream, sums: In<'_, u32>, starts: Out<'_, u32>) -> Result<()> {
        same_length("starts of runs", sums.len().max(1), starts.len())?;
        same_length("sums of starts", sums.len().max(1), sums.len())?;
        let arguments = WindowStartsArguments {
            sums: sums.pointer(),
            starts: starts.pointer(),
            rows: sums.len() as u64 - 1,
        };
        let geometry = Geometry::grid_stride(sums.len() as u64, BLOCK.into(), BLOCK, self.blocks);
        let references = [sums.reference(), starts.reference()];
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
