//! Columns of the store as regions of device memory: a page is a chunk, with its buffers one after the other,
//! each aligned to 256 bytes.
//!
//! A page never owns its original: the region has a weak reference to its [`Identity`], and is dropped with
//! it. Versions of a column (the table before and after an `INSERT`) share the pages of their common chunks.

use galatea_device::HostView;
use galatea_memory::Identity;
use galatea_memory::regions::Source;
use galatea_store::{Chunk, Column};
use std::sync::Arc;

/// Alignment of every buffer of a chunk, and of its size: vector loads may read past the last row.
pub(crate) const ALIGNMENT: u64 = 256;

/// Addresses of a chunk's buffers in device memory; 0 means that there is no such buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ChunkAddresses {
    /// Codes, values or string bytes.
    pub data: u64,
    /// Validity bitmap.
    pub validity: u64,
    /// String offsets.
    pub offsets: u64,
}

/// A column of the store as the source of a region.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColumnPages<'a>(pub(crate) &'a Arc<Column>);

impl Source for ColumnPages<'_> {
    fn identity(&self) -> &Arc<Identity> {
        &self.0.identity
    }

    fn name(&self) -> &str {
        &self.0.name
    }

    fn pages(&self) -> usize {
        self.0.chunks.len()
    }

    fn page(&self, index: usize) -> &Arc<Identity> {
        &self.0.chunks[index].identity
    }

    fn page_bytes(&self, index: usize) -> u64 {
        chunk_layout(self.0, index, 0).1
    }
}

/// Number of bytes of some chunks of a column that must be transferred over the link if `here` of its bytes
/// are in device memory. Packed codes have fewer bytes on the link than in device memory.
pub(crate) fn away<'c>(chunks: impl Iterator<Item = &'c Chunk>, here: u64) -> u64 {
    let (stored, plain) = chunks.fold((0, 0), |(stored, plain), chunk| {
        (stored + chunk.stored_bytes(), plain + chunk.plain_bytes())
    });
    (stored as f64 * (1.0 - here as f64 / plain.max(1) as f64)).max(0.0) as u64
}

/// Layout of a chunk's buffers from `start`: addresses relative to the allocation, and the end.
pub(crate) fn chunk_layout(column: &Column, index: usize, start: u64) -> ([Option<u64>; 3], u64) {
    let chunk = &column.chunks[index];
    let mut at = start;
    let mut place = |bytes: Option<usize>| {
        bytes.map(|bytes| {
            let here = at;
            at += (bytes as u64).max(1).next_multiple_of(ALIGNMENT);
            here
        })
    };
    let layout = [
        place(Some(chunk.data.plain_bytes())),
        place(chunk.validity.as_ref().map(HostView::len)),
        place(chunk.offsets.as_ref().map(HostView::len)),
    ];
    (layout, at)
}

/// Addresses of a chunk laid out at `layout` in an allocation at `base`.
pub(crate) fn addresses(base: u64, layout: [Option<u64>; 3]) -> ChunkAddresses {
    let [data, validity, offsets] = layout.map(|place| place.map_or(0, |place| base + place));
    ChunkAddresses {
        data,
        validity,
        offsets,
    }
}
