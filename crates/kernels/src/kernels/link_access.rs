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
        /// Words that a lane moves by one instruction.
        pub unit_words: u32,
        /// 1: at random places.
        pub random: u32,
        /// 1: written.
        pub writes: u32,
        /// Nothing.
        pub unused: u32,
    }
}

resident_kernel! {
    /// Accesses pieces of memory, each by one lane or by adjacent ones, several under way at once.
    ///
    /// A lane moves as much at once as the pieces' length and alignment allow, 4, 8 or 16 bytes: after C.
    /// Lutz' thesis, section 4.2.4, where pieces up to 16 bytes are one thread's and larger ones are
    /// coalesced.
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

impl Pieces {
    /// Places that pieces may have: pieces that the memory has room for.
    fn places(&self) -> u64 {
        (self.bytes / 4 / (self.piece / 4).max(1)).max(1)
    }

    /// The place of a piece: the number of its first word, in pieces.
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
    /// The kernel with a part of the device's blocks, so that so many kernels, of other streams, run at the
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
        // The greatest power of two that divides both, which all pieces begin at.
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
