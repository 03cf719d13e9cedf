//! Reading and writing pieces of memory by address, to measure transfer methods.

use galatea_device::{DeviceBuffer, DevicePointer, Geometry, Result, Stream, kernel_arguments};

use super::BLOCK;
use crate::flow::mix64;
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `link_access`; the header describes each field.
    pub struct LinkAccessArguments in "galatea/args/link_access.h" {
        /// Device-accessible memory.
        pub words: DevicePointer<u32>,
        /// The sum is added to it.
        pub sum: DevicePointer<u64>,
        /// Pieces to access.
        pub granules: u64,
        /// Words of a piece.
        pub granule_words: u64,
        /// Capacity of the memory in pieces.
        pub places: u64,
        /// Seed of the random order and the written values.
        pub seed: u64,
        /// Words that a lane moves by one instruction.
        pub unit_words: u32,
        /// 1: at random positions.
        pub random: u32,
        /// 1: words are written.
        pub writes: u32,
        /// Unused.
        pub unused: u32,
    }
}

resident_kernel! {
    /// Accesses pieces of memory, each by one lane or by adjacent ones, with several in flight at once.
    ///
    /// A lane moves the maximum that the pieces' length and alignment allow, 4, 8 or 16 bytes: after C. Lutz'
    /// thesis, section 4.2.4, in which a thread accesses pieces up to 16 bytes and larger ones are coalesced.
    LinkAccess, "link_access", LinkAccessArguments
}

/// The accesses of a launch of [`LinkAccess`].
#[derive(Debug, Clone, Copy)]
pub struct Pieces {
    /// Device address of the memory, 4-byte aligned; `bytes` bytes must be valid there for the duration of
    /// the launch.
    pub address: u64,
    /// Bytes of the memory.
    pub bytes: u64,
    /// Bytes of a piece, whole words.
    pub piece: u64,
    /// Pieces to access.
    pub count: u64,
    /// Whether pieces are at random positions.
    pub random: bool,
    /// Whether they are written.
    pub writes: bool,
    /// Seed.
    pub seed: u64,
}

impl Pieces {
    /// Number of positions of pieces: the capacity of the memory in pieces.
    fn places(&self) -> u64 {
        (self.bytes / 4 / (self.piece / 4).max(1)).max(1)
    }

    /// The position of a piece: the index of its first word, in pieces.
    #[must_use]
    pub fn place(&self, piece: u64) -> u64 {
        match self.random {
            true => {
                ((u128::from(mix64(self.seed.wrapping_add(piece))) * u128::from(self.places())) >> 64) as u64
            }
            false => piece % self.places(),
        }
    }
}

impl LinkAccess {
    /// The kernel with a part of the device's blocks, so that `kernels` kernels, of other streams, run at the
    /// same time.
    #[must_use]
    pub fn beside(mut self, kernels: u64) -> Self {
        self.blocks = (self.blocks / kernels.max(1)).max(1);
        self
    }

    /// Queues the accesses; the wrapping sum of the words read is added to `sum`, of one value.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(&self, stream: &Stream, pieces: Pieces, sum: &mut DeviceBuffer<u64>) -> Result<()> {
        let granule_words = (pieces.piece / 4).max(1);
        // The greatest power of two that divides both: all pieces begin at multiples of it.
        let unit_words = 1 << ((pieces.address / 4) | granule_words).trailing_zeros().min(2);
        let arguments = LinkAccessArguments {
            words: DevicePointer::new(pieces.address),
            sum: DevicePointer::new(sum.address()),
            granules: pieces.count,
            granule_words,
            places: pieces.places(),
            seed: pieces.seed,
            unit_words,
            random: u32::from(pieces.random),
            writes: u32::from(pieces.writes),
            unused: 0,
        };
        sum.used_by(stream)?;
        let units = pieces.count.saturating_mul(granule_words / u64::from(unit_words));
        let geometry = Geometry::grid_stride(units, u64::from(BLOCK), BLOCK, self.blocks);
        self.function.launch(stream, geometry, &arguments, &[])
    }

    /// The value that a writing launch stores in a word.
    #[must_use]
    pub fn written(seed: u64, word: u64) -> u32 {
        mix64(seed ^ word) as u32
    }
}
