//! The chunk table of a launch.

use super::columns::ChunkAddresses;
use galatea_device::DeviceBuffer;
use galatea_kernels::{CHUNK_HEADER_WORDS, COLUMN_WORDS};
use galatea_store::{Chunk, TableView};

/// The chunks of a launch, as the kernel reads them (`morsel.cuh`).
#[derive(Debug, Clone)]
pub(crate) struct ChunkTable {
    /// The words, sentinel included; empty once they are on the device.
    pub words: Vec<u64>,
    /// Number of words per chunk.
    pub stride: usize,
    /// First morsel of each chunk, and the number of morsels.
    pub first_morsels: Vec<u32>,
    /// Maximum number of morsels of a chunk.
    pub morsels_per_chunk: u32,
}

impl ChunkTable {
    /// The table of `chunks` (indices into the view). `place` returns the addresses of their buffers.
    pub(crate) fn new(
        view: &TableView,
        chunks: &[usize],
        morsel_rows: u32,
        place: impl Fn(usize, usize) -> ChunkAddresses,
    ) -> Self {
        let stride = CHUNK_HEADER_WORDS + view.columns.len() * COLUMN_WORDS;
        let mut words = Vec::with_capacity((chunks.len() + 1) * stride);
        let mut first_morsels = Vec::with_capacity(chunks.len() + 1);
        let mut morsels = 0u32;
        let mut morsels_per_chunk = 1;
        let mut rows_before = 0;
        let first_rows: Vec<u64> = (view.chunk_rows.iter())
            .map(|rows| {
                let first = rows_before;
                rows_before += u64::from(*rows);
                first
            })
            .collect();
        for (position, &chunk) in chunks.iter().enumerate() {
            let rows = view.chunk_rows[chunk];
            words.extend([u64::from(rows), u64::from(morsels), first_rows[chunk]]);
            for (k, column) in view.columns.iter().enumerate() {
                words.extend(column_words(&column.chunks[chunk], place(position, k)));
            }
            first_morsels.push(morsels);
            let own = rows.div_ceil(morsel_rows);
            morsels_per_chunk = morsels_per_chunk.max(own);
            morsels += own;
        }
        first_morsels.push(morsels);
        // The sentinel has no rows, and its first morsel is past every morsel.
        words.extend([0, u64::from(u32::MAX)]);
        words.resize((chunks.len() + 1) * stride, 0);
        Self {
            words,
            stride,
            first_morsels,
            morsels_per_chunk,
        }
    }
}

/// The words of a column of a chunk.
fn column_words(chunk: &Chunk, at: ChunkAddresses) -> [u64; COLUMN_WORDS] {
    [at.data, at.validity, chunk.base as u64, at.offsets]
}

/// Inputs of a launch besides columns: the chunk table and the lookup tables, in device memory.
#[derive(Debug)]
pub(crate) struct LaunchInputs {
    /// Chunks in the order of the table.
    pub(crate) order: Vec<usize>,
    /// The table; its words are on the device.
    pub(crate) table: ChunkTable,
    pub(crate) words: DeviceBuffer<u64>,
    /// By table number; `None` if the table is part of a build side.
    pub(crate) lookups: Vec<Option<DeviceBuffer<u8>>>,
    /// How copies of groups merge, word by word, if groups have copies.
    pub(crate) merges: Option<DeviceBuffer<u8>>,
}
