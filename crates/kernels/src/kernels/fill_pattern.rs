//! Pseudo-random values generated on the device, for tests and measurements.

use galatea_device::{DevicePointer, Geometry, Out, Result, Stream, kernel_arguments};

use super::BLOCK;
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `fill_pattern`.
    pub struct FillPatternArguments in "galatea/args/fill_pattern.h" {
        /// The array to fill.
        pub values: DevicePointer<u64>,
        /// Number of values.
        pub count: u64,
        /// Value `i` becomes `pattern(seed, i)`.
        pub seed: u64,
    }
}

resident_kernel! {
    /// Fills an array with [`pattern`].
    FillPattern, "fill_pattern", FillPatternArguments
}

impl FillPattern {
    /// Sets value `i` to `pattern(seed, i)`.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(&self, stream: &Stream, values: Out<'_, u64>, seed: u64) -> Result<()> {
        let arguments = FillPatternArguments {
            values: values.pointer(),
            count: values.len() as u64,
            seed,
        };
        let geometry = Geometry::grid_stride(arguments.count, BLOCK.into(), BLOCK, self.blocks);
        self.function
            .launch(stream, geometry, &arguments, &[values.reference()])
    }
}

/// Value `index` of the pattern with a seed: `mix64(seed + index)` of `prelude.cuh`.
#[must_use]
pub fn pattern(seed: u64, index: u64) -> u64 {
    let x = seed.wrapping_add(index);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
