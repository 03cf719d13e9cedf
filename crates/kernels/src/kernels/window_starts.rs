//! The first position of each run of a window's order.

use galatea_device::{DevicePointer, Geometry, In, Out, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `window_starts`.
    pub struct WindowStartsArguments in "galatea/args/window_starts.h" {
        /// By position: the number of runs that begin before it; one more: all runs.
        pub sums: DevicePointer<u32>,
        /// The first position of each run, and the number of positions.
        pub starts: DevicePointer<u32>,
        /// Number of positions.
        pub rows: u64,
    }
}

resident_kernel! {
    /// Writes the first position of each run.
    WindowStarts, "window_starts", WindowStartsArguments
}

impl WindowStarts {
    /// Writes the first position of run `r` to `starts[r]`, and after the last one the number of positions;
    /// `sums` are the numbers of runs that begin before each position, and last the number of all runs. There
    /// are no more runs than positions.
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
