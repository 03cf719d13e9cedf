//! The access pattern that columns are laid out for: the order in which pipelines read the rows of chunks.

use galatea_layout::{AccessPattern, LayoutError, Tiles};

/// The order in which blocks read the rows of a chunk: morsels of consecutive rows, in steps of some rows per
/// thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileShape {
    /// Threads of a block.
    pub threads: u32,
    /// Consecutive rows that a thread reads in a step.
    pub rows_per_thread: u32,
    /// Rows of a morsel: a multiple of the product of the two.
    pub morsel_rows: u32,
}

/// The pattern of pipelines that group: blocks of the default size of `galatea.tuning.block_threads`, eight
/// rows per thread, morsels of four steps (`crates/codegen/src/generate.rs`). Columns are laid out for it; a
/// pipeline with another pattern reads them correctly, with more conflicts.
pub const PIPELINE_TILES: TileShape = TileShape {
    threads: 256,
    rows_per_thread: 8,
    morsel_rows: 4 * 256 * 8,
};

impl TileShape {
    /// The pattern over chunks with these numbers of rows.
    ///
    /// # Errors
    /// The errors of [`Tiles::new`].
    pub fn in_chunks(self, chunk_rows: &[u32]) -> Result<ChunkTiles, LayoutError> {
        let tiles = Tiles::new(
            self.threads as usize,
            self.rows_per_thread as usize,
            self.morsel_rows as usize,
        )?;
        let mut chunks = Vec::with_capacity(chunk_rows.len());
        let (mut row, mut block) = (0, 0);
        for &rows in chunk_rows {
            let rows = rows as usize;
            chunks.push(TiledChunk { row, block, rows });
            row += rows;
            block += tiles.blocks(rows);
        }
        Ok(ChunkTiles {
            tiles,
            chunks,
            blocks: block,
        })
    }
}

/// [`Tiles`] over chunks of any sizes; chunks of files follow row groups. The column's rows are those of the
/// chunks.
#[derive(Debug, Clone)]
pub struct ChunkTiles {
    tiles: Tiles,
    chunks: Vec<TiledChunk>,
    blocks: usize,
}

/// A chunk, its first row and its first block.
#[derive(Debug, Clone, Copy)]
struct TiledChunk {
    row: usize,
    block: usize,
    rows: usize,
}

impl ChunkTiles {
    /// The chunk of a block.
    #[inline]
    fn chunk(&self, block: usize) -> TiledChunk {
        let after = self.chunks.partition_point(|chunk| chunk.block <= block);
        self.chunks[after - 1]
    }
}

impl AccessPattern for ChunkTiles {
    fn lanes(&self) -> usize {
        self.tiles.lanes()
    }

    fn blocks(&self, _rows: usize) -> usize {
        self.blocks
    }

    fn accesses(&self, _rows: usize, block: usize) -> usize {
        let chunk = self.chunk(block);
        self.tiles.accesses(chunk.rows, block - chunk.block)
    }

    #[inline]
    fn row(&self, _rows: usize, block: usize, access: usize, lane: usize) -> Option<usize> {
        let chunk = self.chunk(block);
        let row = self.tiles.row(chunk.rows, block - chunk.block, access, lane)?;
        Some(chunk.row + row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use galatea_layout::for_each_access;

    #[test]
    fn pattern_covers_rows_once_without_crossing_chunks() {
        let chunk_rows = [1, 8192, 8193, 31, 20_000];
        let pattern = PIPELINE_TILES.in_chunks(&chunk_rows).expect("a pattern");
        let rows: usize = chunk_rows.iter().map(|rows| *rows as usize).sum();
        let chunk_of = |row: usize| {
            let mut end = 0;
            chunk_rows.iter().position(|rows| {
                end += *rows as usize;
                row < end
            })
        };
        let mut seen = vec![0; rows];
        for block in 0..pattern.blocks(rows) {
            let mut chunk = None;
            for_each_access(&pattern, rows, block, |_, touched| {
                for &row in touched {
                    seen[row] += 1;
                    assert_eq!(*chunk.get_or_insert(chunk_of(row)), chunk_of(row), "row {row}");
                }
            });
        }
        assert!(seen.iter().all(|times| *times == 1));
        assert_eq!(pattern.blocks(rows), 1 + 1 + 2 + 1 + 3);
    }

    #[test]
    fn pattern_of_equal_chunks_equals_chunked_tiles() {
        let (shape, rows) = (PIPELINE_TILES, 30_000);
        let ours = shape.in_chunks(&[10_000; 3]).expect("a pattern");
        let tiles = Tiles::new(256, 8, shape.morsel_rows as usize).and_then(|tiles| tiles.in_chunks(10_000));
        let theirs = tiles.expect("a pattern");
        assert_eq!(ours.blocks(rows), theirs.blocks(rows));
        for block in 0..ours.blocks(rows) {
            assert_eq!(ours.accesses(rows, block), theirs.accesses(rows, block));
            for access in 0..ours.accesses(rows, block) {
                for lane in 0..32 {
                    let (our, their) = (
                        ours.row(rows, block, access, lane),
                        theirs.row(rows, block, access, lane),
                    );
                    assert_eq!(our, their, "block {block}, access {access}, lane {lane}");
                }
            }
        }
    }
}
