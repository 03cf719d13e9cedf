//! Chunks of the store in device memory: the addresses of their buffers, and the bytes to transfer.

use galatea_store::Chunk;

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

/// Number of bytes of some chunks of a column that must be transferred over the link if `here` of its bytes
/// are in device memory. Packed codes have fewer bytes on the link than in device memory.
pub(crate) fn away<'c>(chunks: impl Iterator<Item = &'c Chunk>, here: u64) -> u64 {
    let (stored, plain) = chunks.fold((0, 0), |(stored, plain), chunk| {
        (stored + chunk.stored_bytes(), plain + chunk.plain_bytes())
    });
    (stored as f64 * (1.0 - here as f64 / plain.max(1) as f64)).max(0.0) as u64
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
