//! Reading chunks that come over the link: by a launch each, or by one that waits for them.

use std::ops::Range;

use galatea_device::{DeviceError, DevicePointer, Geometry, In, Out, Result, Stream, kernel_arguments};

use super::BLOCK;
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `read_chunks`.
    pub struct ReadChunksArguments in "galatea/args/read_chunks.h" {
        /// Chunks, one after the other.
        pub values: DevicePointer<u64>,
        /// A word for each, not 0 once it is there; 0: all are.
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
    /// Sums chunks of an array, a block a chunk.
    ReadChunks, "read_chunks", ReadChunksArguments
}

impl ReadChunks {
    /// Sums the chunks of a range, each of `chunk_values` values. `arrivals`: the address of a word for each
    /// chunk, for whose store, queued before, its block waits.
    ///
    /// # Errors
    /// [`DeviceError::Range`] for chunks that `values` or `sums` do not have; the device's.
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
