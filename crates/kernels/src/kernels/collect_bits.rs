//! Collecting the indices of the bits of a bitmap.

use galatea_device::{DevicePointer, Geometry, In, InOut, Out, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `collect_bits`.
    pub struct CollectBitsArguments in "galatea/args/collect_bits.h" {
        /// The bitmap, in words of 32 bits.
        pub words: DevicePointer<u32>,
        /// The indices of the bits equal to `wanted`, in any order.
        pub numbers: DevicePointer<u32>,
        /// Their number is added to it.
        pub found: DevicePointer<u64>,
        /// Number of bits.
        pub bits: u64,
        /// 0 or 1.
        pub wanted: u32,
        /// Padding.
        pub unused: u32,
    }
}

resident_kernel! {
    /// Collects the indices of the bits of a bitmap that are 1, or 0.
    CollectBits, "collect_bits", CollectBitsArguments
}

impl CollectBits {
    /// Writes the indices of those of the first `numbers.len()` bits of `words` that are equal to `wanted`,
    /// in any order, and adds their number to the one value of `found`.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when `words` does not have exactly that number of bits, or
    /// `found` is not one value; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        words: In<'_, u32>,
        wanted: bool,
        numbers: Out<'_, u32>,
        found: InOut<'_, u64>,
    ) -> Result<()> {
        same_length("words of a bitmap", numbers.len().div_ceil(32), words.len())?;
        same_length("a counter", 1, found.len())?;
        let arguments = CollectBitsArguments {
            words: words.pointer(),
            numbers: numbers.pointer(),
            found: found.pointer(),
            bits: numbers.len() as u64,
            wanted: wanted.into(),
            unused: 0,
        };
        let geometry = Geometry::grid_stride(words.len() as u64, BLOCK.into(), BLOCK, self.blocks);
        let references = [words.reference(), numbers.reference(), found.reference()];
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
