//! Ranks of strings that are in order.

use galatea_device::{DevicePointer, Geometry, In, InOut, Result, Stream, kernel_arguments};

use super::BLOCK;
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `string_ranks`.
    pub struct StringRanksArguments in "galatea/args/string_ranks.h" {
        /// Positions of strings, in sort order.
        pub places: DevicePointer<u64>,
        /// By position: the rank.
        pub ranks: DevicePointer<u32>,
        /// Strings.
        pub count: u64,
    }
}

resident_kernel! {
    /// Stores the rank of each string by its position.
    StringRanks, "string_ranks", StringRanksArguments
}

impl StringRanks {
    /// Writes `i + 1` to `ranks[places[i]]`; every position must be an index of `ranks`.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(&self, stream: &Stream, places: In<'_, u64>, ranks: InOut<'_, u32>) -> Result<()> {
        let arguments = StringRanksArguments {
            places: places.pointer(),
            ranks: ranks.pointer(),
            count: places.len() as u64,
        };
        let geometry = Geometry::grid_stride(arguments.count, BLOCK.into(), BLOCK, self.blocks);
        let references = [places.reference(), ranks.reference()];
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
