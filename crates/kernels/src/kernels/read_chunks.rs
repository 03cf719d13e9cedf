//! Reading chunks transferred over the link: with one launch each, or with one launch that waits for them.

use std::ops::Range;

use galatea_device::{DeviceError, DevicePointer, Geometry, In, Out, Result, Stream, kernel_arguments};

use super::BLOCK;
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `read_chunks`.
    pub struct ReadChunksArguments in "galatea/args/read_chunks.h" {
        /// Consecutive chunks.
        pub values: DevicePointer<u64>,
        /// A word for each chunk, not 0 once it is resident; 0: all are resident.
        pub arrivals: u64,
        /// Values of a chunk.
        pub chunk_values: u64,
        /// First chunk of the launch.
        pub first: u64,
        /// End of its chunks.
        pub end: u64,
        /// A wrapping sum for each chunk.
        pub sums: DevicePointer<u64>,
    }
}

resident_kernel! {
    /// Sums chunks of an array, one block per chunk.
    ReadChunks, "read_chunks", ReadChunksArguments
}

impl ReadChunks {
    /// Sums the chunks of a range, each of `chunk_values` values. `arrivals`: the address of a word for each
    /// chunk; the chunk's block waits for a store to it, which was queued before.
    ///
    /// # Errors
    /// [`DeviceError::Range`] for chunks that are not in `values` or `sums`; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        (values, chunk_values): (In<'_, u64>, usize),
        arrivals: Option<In<'_, u32>>,
        chunks: Range<usize>,
        sums: Out<'_, u64>,
    ) -> Result<()> {
        let there = (values.len() / chunk_values.max(1)).min(sums.len());
        let there = arrivals
            .as_ref()
            .map_or(there, |arrivals| there.min(arrivals.len()));
        if chunks.end > there || chunks.is_empty() {
            return Err(DeviceError::Range {
                what: "chunks that are read",
                start: chunks.start as u64,
                end: chunks.end as u64,
                len: there as u64,
            });
        }
        let arguments = ReadChunksArguments {
            values: values.pointer(),
            arrivals: arrivals
                .as_ref()
                .map_or(0, |arrivals| arrivals.pointer().address()),
            chunk_values: chunk_values as u64,
            first: chunks.start as u64,
            end: chunks.end as u64,
            sums: sums.pointer(),
        };
        let blocks = (chunks.len() as u64).min(self.blocks);
        let mut references = vec![values.reference(), sums.reference()];
        references.extend(arrivals.as_ref().map(In::reference));
        self.function
            .launch(stream, Geometry::new(blocks, BLOCK), &arguments, &references)
    }
}
