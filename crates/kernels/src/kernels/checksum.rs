//! A checksum of device memory that the host can compute, too.

use galatea_device::{DevicePointer, Geometry, In, InOut, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `checksum`.
    pub struct ChecksumArguments in "galatea/args/checksum.h" {
        /// Values to sum.
        pub values: DevicePointer<u64>,
        /// Number of values.
        pub count: u64,
        /// The sum, to which the checksum is added.
        pub sum: DevicePointer<u64>,
    }
}

resident_kernel! {
    /// Adds [`checksum_of`] an array to a value.
    Checksum, "checksum", ChecksumArguments
}

impl Checksum {
    /// Adds the checksum of `values` to the one value of `sum`.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when `sum` is not one value; the device's.
    pub fn launch(&self, stream: &Stream, values: In<'_, u64>, sum: InOut<'_, u64>) -> Result<()> {
        same_length("sum of checksum", 1, sum.len())?;
        let arguments = ChecksumArguments {
            values: values.pointer(),
            count: values.len() as u64,
            sum: sum.pointer(),
        };
        let geometry = Geometry::grid_stride(arguments.count, BLOCK.into(), BLOCK, self.blocks);
        self.function.launch(
            stream,
            geometry,
            &arguments,
            &[values.reference(), sum.reference()],
        )
    }
}

/// The checksum of a slice: the wrapping sum of each value times twice its index plus one.
#[must_use]
pub fn checksum_of(values: &[u64]) -> u64 {
    (0u64..).zip(values).fold(0, |sum, (index, value)| {
        sum.wrapping_add(value.wrapping_mul(2 * index + 1))
    })
}
