//! Counting the digits of keys.

use galatea_device::{Device, DevicePointer, Geometry, In, InOut, Result, Stream, kernel_arguments};

use super::same_length;
use crate::kernel::{KernelFunction, kernel};
use crate::sort::{DIGIT_VALUES, KeyWidth};

/// Threads of a block: their counts are merged once per block.
const THREADS: u32 = 512;

kernel_arguments! {
    /// Arguments of `sort_histogram`.
    pub struct SortHistogramArguments in "galatea/args/sort_histogram.h" {
        /// Keys.
        pub keys: DevicePointer<u8>,
        /// Number of keys.
        pub rows: u64,
        /// Counts, by digit and value.
        pub counts: DevicePointer<u32>,
    }
}

kernel!(SortHistogram, "sort_histogram", SortHistogramArguments);

/// Counts the values of every digit of keys.
#[derive(Debug, Clone)]
pub struct SortHistogram {
    function: KernelFunction<Self>,
    width: KeyWidth,
    blocks: u64,
}

impl SortHistogram {
    /// Loads the kernel for keys of a width.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device, width: KeyWidth) -> Result<Self> {
        let function = KernelFunction::load_with(device, [width.option()])?;
        let blocks = function.resident_blocks(THREADS)?;
        Ok(Self {
            function,
            width,
            blocks,
        })
    }

    /// Adds the number of keys with each value of each digit to `counts[digit * 256 + value]`; the first
    /// digit is the least significant. `keys` are whole keys from an address that is a multiple of 16.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] for other lengths; the device's.
    pub fn launch(&self, stream: &Stream, keys: In<'_, u8>, counts: InOut<'_, u32>) -> Result<()> {
        let digits = self.width.digits() * DIGIT_VALUES;
        same_length("counts of digits", digits, counts.len())?;
        let arguments = SortHistogramArguments {
            keys: keys.pointer(),
            rows: self.width.rows(keys.len())?,
            counts: counts.pointer(),
        };
        let keys_per_block = 64 / self.width.bytes() as u64 * u64::from(THREADS);
        let geometry = Geometry::grid_stride(arguments.rows, keys_per_block, THREADS, self.blocks);
        let references = [keys.reference(), counts.reference()];
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
