//! Checks of partitionings.

use galatea_device::{Device, DevicePointer, Geometry, Result, Stream};

use super::arguments::RadixCheckArguments;
use super::types::{RadixBits, RadixRows};
use crate::flow::mix64;
use crate::kernel::{BLOCK, KernelFunction, kernel};

kernel!(RadixCheck, "radix_check", RadixCheckArguments);

/// Checks partitionings.
#[derive(Debug, Clone)]
pub struct RadixCheck {
    function: KernelFunction<Self>,
}

impl RadixCheck {
    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device) -> Result<Self> {
        let function = KernelFunction::load(device)?;
        Ok(Self { function })
    }

    /// The hash of a tuple, of which the sum is taken.
    #[must_use]
    pub fn hash(key: u64, value: u64) -> u64 {
        mix64(key ^ mix64(value))
    }

    /// Adds the sum of the hashes of partitioned tuples, and the number of tuples in a wrong partition, to
    /// the two values at device address `sums`. `starts` has `lists` positions and the end.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(
        &self,
        stream: &Stream,
        (rows, count): (RadixRows, u64),
        (starts, lists): (u64, usize),
        bits: RadixBits,
        sums: u64,
    ) -> Result<()> {
        let (rows, pages, page_bits) = rows.fields();
        let arguments = RadixCheckArguments {
            rows,
            pages,
            keys: DevicePointer::NULL,
            values: DevicePointer::NULL,
            starts: DevicePointer::new(starts),
            sums: DevicePointer::new(sums),
            count,
            lists: lists as u32,
            page_bits,
            raw: bits.raw.into(),
            shift: bits.shift,
            bits: bits.bits,
            unused: 0,
        };
        let geometry = Geometry::grid_stride(count, BLOCK.into(), BLOCK, 1024);
        self.function.launch(stream, geometry, &arguments, &[])
    }
}
