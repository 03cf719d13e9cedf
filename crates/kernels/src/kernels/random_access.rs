//! Reading and writing words of a table at random positions.

use galatea_device::{
    DeviceError, DevicePointer, Geometry, In, InOut, Reference, Result, Stream, kernel_arguments,
};

use super::{BLOCK, pattern, same_length};
use crate::kernel::resident_kernel;
use crate::sort::KeyWidth;

kernel_arguments! {
    /// Arguments of `random_access`; the header describes each field.
    pub struct RandomAccessArguments in "galatea/args/random_access.h" {
        /// Address of the words.
        pub table: u64,
        /// Number of words.
        pub words: u64,
        /// Accesses.
        pub accesses: u64,
        /// Seed of the random positions.
        pub seed: u64,
        /// The sum is added to it.
        pub sum: DevicePointer<u64>,
        /// Bytes of a word.
        pub width: u32,
        /// 1: words are written.
        pub writes: u32,
    }
}

resident_kernel! {
    /// Accesses words of a table at random positions.
    RandomAccess, "random_access", RandomAccessArguments
}

/// The accesses of a launch of [`RandomAccess`].
#[derive(Debug, Clone, Copy)]
pub struct Accesses {
    /// Bytes of a word.
    pub width: KeyWidth,
    /// Number of accesses.
    pub count: u64,
    /// Seed of the random positions.
    pub seed: u64,
}

impl Accesses {
    /// The index of the word of access `number`, out of `words`.
    #[must_use]
    pub fn place(&self, number: u64, words: u64) -> u64 {
        ((pattern(self.seed, number) >> 32) * words) >> 32
    }
}

impl RandomAccess {
    /// Reads words of `table`; their wrapping sum is added to the one value of `sum`.
    ///
    /// # Errors
    /// [`DeviceError::Range`] for an empty table or one of 2^32 words or more, and for more than one sum; the
    /// device's.
    pub fn read(
        &self,
        stream: &Stream,
        accesses: Accesses,
        table: In<'_, u8>,
        sum: InOut<'_, u64>,
    ) -> Result<()> {
        same_length("a sum", 1, sum.len())?;
        let arguments = RandomAccessArguments {
            table: table.pointer().address(),
            sum: sum.pointer(),
            ..arguments(accesses, table.len(), 0)?
        };
        self.launch(stream, &arguments, &[table.reference(), sum.reference()])
    }

    /// Writes its own index, or the lower half of it, to each accessed word of `table`.
    ///
    /// # Errors
    /// See [`Self::read`].
    pub fn write(&self, stream: &Stream, accesses: Accesses, table: InOut<'_, u8>) -> Result<()> {
        let arguments = RandomAccessArguments {
            table: table.pointer().address(),
            ..arguments(accesses, table.len(), 1)?
        };
        self.launch(stream, &arguments, &[table.reference()])
    }

    fn launch(
        &self,
        stream: &Stream,
        arguments: &RandomAccessArguments,
        references: &[Reference<'_>],
    ) -> Result<()> {
        let geometry = Geometry::grid_stride(arguments.accesses, BLOCK.into(), BLOCK, self.blocks);
        self.function.launch(stream, geometry, arguments, references)
    }
}

/// The arguments of accesses to a table of `bytes` bytes, without addresses.
fn arguments(accesses: Accesses, bytes: usize, writes: u32) -> Result<RandomAccessArguments> {
    let words = (bytes / accesses.width.bytes()) as u64;
    if words == 0 || words > u64::from(u32::MAX) {
        return Err(DeviceError::Range {
            what: "words accessed at random",
            start: 1,
            end: words,
            len: u32::MAX.into(),
        });
    }
    Ok(RandomAccessArguments {
        table: 0,
        words,
        accesses: accesses.count,
        seed: accesses.seed,
        sum: DevicePointer::new(0),
        width: accesses.width.bytes() as u32,
        writes,
    })
}
