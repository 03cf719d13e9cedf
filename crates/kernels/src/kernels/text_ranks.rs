//! Ranks of texts that are in order.

use galatea_device::{DevicePointer, Geometry, In, InOut, Result, Stream, kernel_arguments};

use super::BLOCK;
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `text_ranks`.
    pub struct TextRanksArguments in "galatea/args/text_ranks.h" {
        /// Places of texts, in their order.
        pub places: DevicePointer<u64>,
        /// By place the rank.
        pub ranks: DevicePointer<u32>,
        /// Texts.
        pub count: u64,
    }
}

resident_kernel! {
    /// Writes the rank of each text to where its place is.
    TextRanks, "text_ranks", TextRanksArguments
}

impl TextRanks {
    /// Writes `i + 1` to `ranks[places[i]]`; every place is one of `ranks`.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(&self, stream: &Stream, places: In<'_, u64>, ranks: InOut<'_, u32>) -> Result<()> {
        let arguments = TextRanksArguments {
            places: places.pointer(),
            ranks: ranks.pointer(),
            count: places.len() as u64,
        };
        let geometry = Geometry::grid_stride(arguments.count, BLOCK.into(), BLOCK, self.blocks);
        let references = [places.reference(), ranks.reference()];
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
