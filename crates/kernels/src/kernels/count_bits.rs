//! Counting the bits of a bitmap.

use galatea_device::{DevicePointer, Geometry, In, InOut, Result, Stream, kernel_arguments};

use super::BLOCK;
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `count_bits`.
    pub struct CountBitsArguments in "galatea/args/count_bits.h" {
        /// The bitmap, in words of 32 bits.
        pub words: DevicePointer<u32>,
        /// Words.
        pub count: u64,
        /// The number of bits that are 1 is added to it.
        pub ones: DevicePointer<u64>,
    }
}

resident_kernel! {
    /// Counts the bits of a bitmap that are 1.
    CountBits, "count_bits", CountBitsArguments
}

impl CountBits {
    /// Adds the number of bits of `words` that are 1 to the one value of `ones`.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when `ones` is not one value; the device's.
    pub fn launch(&self, stream: &Stream, words: In<'_, u32>, ones: InOut<'_, u64>) -> Result<()> {
        super::same_length("a counter", 1, ones.len())?;
        let arguments = CountBitsArguments {
            words: words.pointer(),
            count: words.len() as u64,
            ones: ones.pointer(),
        };
        let geometry = Geometry::grid_stride(words.len() as u64, BLOCK.into(), BLOCK, self.blocks);
        let references = [words.reference(), ones.reference()];
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
