//! Prefix sums.

use galatea_device::{DevicePointer, Geometry, In, InOut, Out, Reference, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `prefix_sum`.
    pub struct PrefixSumArguments in "galatea/args/prefix_sum.h" {
        /// The counts; null: those in `wide`.
        pub counts: DevicePointer<u32>,
        /// The sums as 32 bits, may be `counts`; or null.
        pub narrow: DevicePointer<u32>,
        /// The sums as 64 or 128 bits, or null.
        pub wide: DevicePointer<u64>,
        /// By block: the sum of its counts, as wide as the sums.
        pub totals: DevicePointer<u64>,
        /// Number of counts; the output has one sum more.
        pub count: u64,
        /// Consecutive counts per block.
        pub per_block: u64,
        /// 0: totals, 1: sums.
        pub phase: u32,
        /// Bytes of a sum: 8 or 16.
        pub width: u32,
    }
}

resident_kernel! {
    /// Computes the exclusive prefix sums of counts.
    PrefixSum, "prefix_sum", PrefixSumArguments
}

impl PrefixSum {
    /// Number of counts that justify a separate block.
    const LEAST_OF_A_BLOCK: u64 = 4096;

    /// Number of totals that a launch needs.
    #[must_use]
    pub fn totals(&self) -> usize {
        self.blocks as usize
    }

    /// Replaces each count by the sum of those before it; the last element, with irrelevant content, receives
    /// the sum of all, which must fit 32 bits.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when `counts` is empty or `totals` is not [`Self::totals`]
    /// long; the device's.
    pub fn replace(&self, stream: &Stream, counts: InOut<'_, u32>, totals: Out<'_, u64>) -> Result<()> {
        let count = self.check(counts.len(), totals.len())?;
        let pointer = counts.pointer();
        let arguments = |phase| PrefixSumArguments {
            counts: pointer,
            narrow: pointer,
            wide: DevicePointer::NULL,
            totals: totals.pointer(),
            count,
            per_block: self.per_block(count),
            phase,
            width: 8,
        };
        let references = [counts.reference(), totals.reference()];
        self.run(stream, count, arguments, &references)
    }

    /// Writes the sum of the counts before each count to `sums`, followed by the sum of all.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when `sums` is not one longer than `counts`, or `totals` not
    /// [`Self::totals`] long; the device's.
    pub fn sum(
        &self,
        stream: &Stream,
        counts: In<'_, u32>,
        sums: Out<'_, u64>,
        totals: Out<'_, u64>,
    ) -> Result<()> {
        same_length("sums of counts", counts.len() + 1, sums.len())?;
        let count = self.check(sums.len(), totals.len())?;
        let arguments = |phase| PrefixSumArguments {
            counts: counts.pointer(),
            narrow: DevicePointer::NULL,
            wide: sums.pointer(),
            totals: totals.pointer(),
            count,
            per_block: self.per_block(count),
            phase,
            width: 8,
        };
        let references = [counts.reference(), sums.reference(), totals.reference()];
        self.run(stream, count, arguments, &references)
    }

    /// Replaces each 64- or 128-bit value by the sum of those before it, which wraps; the last element, with
    /// irrelevant content, receives the sum of all. `sums` are 64-bit words, `words` (1 or 2) per value.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when `sums` is empty or not whole values, or `totals` not
    /// `words` times [`Self::totals`] long; the device's.
    pub fn replace_wide(
        &self,
        stream: &Stream,
        sums: InOut<'_, u64>,
        words: usize,
        totals: Out<'_, u64>,
    ) -> Result<()> {
        let words = words.clamp(1, 2);
        same_length("totals of blocks", words * self.totals(), totals.len())?;
        same_length("words of sums", (sums.len() / words).max(1) * words, sums.len())?;
        let count = (sums.len() / words) as u64 - 1;
        let arguments = |phase| PrefixSumArguments {
            counts: DevicePointer::NULL,
            narrow: DevicePointer::NULL,
            wide: sums.pointer(),
            totals: totals.pointer(),
            count,
            per_block: self.per_block(count),
            phase,
            width: 8 * words as u32,
        };
        let references = [sums.reference(), totals.reference()];
        self.run(stream, count, arguments, &references)
    }

    /// Launches both phases.
    fn run(
        &self,
        stream: &Stream,
        count: u64,
        arguments: impl Fn(u32) -> PrefixSumArguments,
        references: &[Reference<'_>],
    ) -> Result<()> {
        (0..2).try_for_each(|phase| {
            self.function
                .launch(stream, self.geometry(count), &arguments(phase), references)
        })
    }

    /// The number of counts for a number of sums.
    fn check(&self, sums: usize, totals: usize) -> Result<u64> {
        same_length("totals of blocks", self.totals(), totals)?;
        same_length("sums of counts", sums.max(1), sums)?;
        Ok(sums as u64 - 1)
    }

    fn per_block(&self, count: u64) -> u64 {
        count.div_ceil(self.blocks.max(1)).max(Self::LEAST_OF_A_BLOCK)
    }

    fn geometry(&self, count: u64) -> Geometry {
        let blocks = count.div_ceil(self.per_block(count)).max(1);
        Geometry::new(blocks as u32, BLOCK)
    }
}
