//! Reading and writing pieces of memory by address: for measuring ways across the link.

use galatea_device::{DeviceBuffer, DevicePointer, Geometry, Result, Stream, kernel_arguments};

use super::BLOCK;
use crate::flow::mix64;
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `link_access`; see the header for the meaning of each field.
    pub struct LinkAccessArguments in "galatea/args/link_access.h" {
        /// Memory that the device reaches.
        pub words: DevicePointer<u32>,
        /// Receives the sum.
        pub sum: DevicePointer<u64>,
        /// Pieces to access.
        pub granules: u64,
        /// Words of a piece.
        pub granule_words: u64,
        /// Pieces that the memory has room for.
        pub places: u64,
        /// Seed of random order, and of written values.
        pub seed: u64,
        /// 1: at random places.
        pub random: u32,
        /// 1: written.
        pub writes: u32,
    }
}

resident_kernel! {
    /// Accesses pieces of memory, one warp a piece.
    LinkAccess, "link_access", LinkAccessArguments
}

/// The accesses of a launch of [`LinkAccess`].
#[derive(Debug, Clone, Copy)]
pub struct Pieces {
    /// Address of the memory for the device, 4-byte aligned; it must be that of `bytes` bytes for as long as
    /// the launch runs.
    pub address: u64,
    /// Bytes of the memory.
    pub bytes: u64,
    /// Bytes of a piece, whole words.
    pub piece: u64,
    /// Pieces to access.
    pub count: u64,
    /// Whether at random places.
    pub random: bool,
    /// Whether they are written.
    pub writes: bool,
    /// Seed.
    pub seed: u64,
}

impl LinkAccess {
    /// Queues the accesses; the wrapping sum of the words read is added to `sum`, of one value.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(&self, stream: &Stream, pieces: Pieces, sum: &mut DeviceBuffer<u64>) -> Result<()> {
        let granule_words = (pieces.piece / 4).max(1);
        let arguments = LinkAccessArguments {
            words: DevicePointer::new(pieces.address),
            sum: DevicePointer::new(sum.address()),
            granules: pieces.count,
            granule_words,
            places: (pieces.bytes / 4 / granule_words).max(1),
            seed: pieces.seed,
            random: u32::from(pieces.random),
            writes: u32::from(pieces.writes),
        };
        sum.used_by(stream)?;
        let geometry = Geometry::grid_stride(pieces.count, u64::from(BLOCK / 32), BLOCK, self.blocks);
        self.function.launch(stream, geometry, &arguments, &[])
    }

    /// The value that a writing launch stores in a word.
    #[must_use]
    pub fn written(seed: u64, word: u64) -> u32 {
        mix64(seed ^ word) as u32
    }
}
