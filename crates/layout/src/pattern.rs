//! Access patterns: the order of the lanes' accesses to rows.
//!
//! A layout suits one order of the rows only: the kernel and the optimiser must use the same map from a row
//! to its block, warp, step and lane (Sitaridi & Ross §2: partitioning is static). [`AccessPattern`] is that
//! map. An *access* is the set of rows that the lanes of one warp access in one instruction. (The paper calls
//! it a chunk; in the store a chunk is a piece of a column.) The optimiser and the analyser take any pattern.
//! [`Tiles`] is that of the paper, of vector loads, and of Galatea's own pipelines; [`Strided`] is the usual
//! grid-stride loop.
//!
//! Accesses of a block are numbered in *program order*: step by step, within a step by the index of the row
//! in its thread, within that warp by warp, as a round-robin scheduler issues them. Real warps drift, so a
//! window of accesses (§3.3) describes other warps approximately.

use std::ops::Range;

use crate::banks::WIDEST;
use crate::error::{LayoutError, Result};

/// The map from accesses to rows. Every row below `rows` belongs to exactly one lane of one access of one
/// block.
pub trait AccessPattern: std::fmt::Debug + Sync {
    /// Lanes of a warp, at most 32.
    fn lanes(&self) -> usize {
        WIDEST as usize
    }

    /// Number of blocks that share the rows. Value conflicts between warps are those of one block (§3.3).
    fn blocks(&self, rows: usize) -> usize;

    /// Number of accesses of a block.
    fn accesses(&self, rows: usize, block: usize) -> usize;

    /// The row that a lane accesses; `None` if the lane is idle.
    fn row(&self, rows: usize, block: usize, access: usize, lane: usize) -> Option<usize>;
}

/// Calls `visit` with the active lanes of each access of a block, and the rows that they access. Accesses
/// without active lanes are skipped.
pub fn for_each_access<P: AccessPattern + ?Sized>(
    pattern: &P,
    rows: usize,
    block: usize,
    mut visit: impl FnMut(&[usize], &[usize]),
) {
    let mut lanes = Vec::with_capacity(WIDEST as usize);
    let mut touched = Vec::with_capacity(WIDEST as usize);
    for access in 0..pattern.accesses(rows, block) {
        lanes.clear();
        touched.clear();
        for lane in 0..pattern.lanes() {
            if let Some(row) = pattern.row(rows, block, access, lane) {
                lanes.push(lane);
                touched.push(row);
            }
        }
        if !lanes.is_empty() {
            visit(&lanes, &touched);
        }
    }
}

/// Blocks process morsels of consecutive rows; in a step, each thread of a block takes a few consecutive
/// rows.
///
/// ```text
/// chunk ┬ morsel 0 ┬ step 0 ┬ thread 0: rows 0 .. V          access (step, i, warp): row i of each lane's V rows
///       │        │        └ thread 1: rows V .. 2V ...
///       │        └ step 1 ...
///       └ morsel 1 ...
/// ```
///
/// With one row per thread this is the paper's pattern (§4); with four, that of `int4` loads (§2); with eight
/// and the morsels and chunks of a pipeline, that of `crates/kernels/cuda/galatea/morsel.cuh`. Morsels do not
/// cross the end of a chunk. A morsel counts as a block: a block processes several morsels, but which ones
/// depends on the size of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiles {
    lanes: usize,
    threads: usize,
    rows_per_thread: usize,
    morsel_rows: usize,
    chunk_rows: usize,
}

impl Tiles {
    /// Blocks of `threads` threads that process morsels of `morsel_rows` rows. Each thread takes
    /// `rows_per_thread` of them a step.
    ///
    /// # Errors
    /// [`LayoutError::Shape`] if threads are not whole warps of 32, or morsels not whole steps.
    pub fn new(threads: usize, rows_per_thread: usize, morsel_rows: usize) -> Result<Self> {
        Self::of_warps(WIDEST as usize, threads, rows_per_thread, morsel_rows)
    }

    /// Like [`Tiles::new`], for warps of `lanes` lanes.
    ///
    /// # Errors
    /// The errors of [`Tiles::new`], and [`LayoutError::Width`] for more than 32 lanes.
    pub fn of_warps(
        lanes: usize,
        threads: usize,
        rows_per_thread: usize,
        morsel_rows: usize,
    ) -> Result<Self> {
        if !(1..=WIDEST as usize).contains(&lanes) {
            return Err(LayoutError::Width {
                what: "lanes",
                asked: u32::try_from(lanes).unwrap_or(u32::MAX),
                limit: WIDEST,
            });
        }
        let whole = |what, asked: usize, multiple: usize, hint| {
            if asked != 0 && asked.is_multiple_of(multiple) {
                return Ok(());
            }
            Err(LayoutError::Shape {
                what,
                asked,
                multiple,
                hint,
            })
        };
        whole("threads per block", threads, lanes, "blocks are whole warps")?;
        whole("rows per thread", rows_per_thread, 1, "a thread takes rows")?;
        whole(
            "rows per morsel",
            morsel_rows,
            threads * rows_per_thread,
            "morsels are whole steps of threads times rows per thread, so that no access crosses two blocks",
        )?;
        Ok(Self {
            lanes,
            threads,
            rows_per_thread,
            morsel_rows,
            chunk_rows: usize::MAX,
        })
    }

    /// The paper's launch (§4): 1024 threads, one row each a step, 350 × 1024 rows per block. The paper
    /// states 350K; 350,000 would end within a step.
    #[must_use]
    pub fn paper() -> Self {
        Self {
            lanes: WIDEST as usize,
            threads: 1024,
            rows_per_thread: 1,
            morsel_rows: 350 * 1024,
            chunk_rows: usize::MAX,
        }
    }

    /// The same pattern over columns in chunks of `chunk_rows` rows. The last chunk may be shorter.
    ///
    /// # Errors
    /// [`LayoutError::Shape`] for chunks of no rows.
    pub fn in_chunks(mut self, chunk_rows: usize) -> Result<Self> {
        if chunk_rows == 0 {
            return Err(LayoutError::Shape {
                what: "rows per chunk",
                asked: 0,
                multiple: 1,
                hint: "a chunk has rows",
            });
        }
        self.chunk_rows = chunk_rows;
        Ok(self)
    }

    fn warps(&self) -> usize {
        self.threads / self.lanes
    }

    fn morsels_per_chunk(&self) -> usize {
        self.chunk_rows.div_ceil(self.morsel_rows)
    }

    /// Rows of a block.
    fn morsel(&self, rows: usize, block: usize) -> Range<usize> {
        let chunk = block / self.morsels_per_chunk();
        let start = chunk.saturating_mul(self.chunk_rows);
        let end = start.saturating_add(self.chunk_rows).min(rows);
        let first = (start + block % self.morsels_per_chunk() * self.morsel_rows).min(end);
        first..end.min(first + self.morsel_rows)
    }
}

impl AccessPattern for Tiles {
    fn lanes(&self) -> usize {
        self.lanes
    }

    fn blocks(&self, rows: usize) -> usize {
        let (whole, rest) = (rows / self.chunk_rows, rows % self.chunk_rows);
        whole * self.morsels_per_chunk() + rest.div_ceil(self.morsel_rows)
    }

    fn accesses(&self, rows: usize, block: usize) -> usize {
        let steps = self
            .morsel(rows, block)
            .len()
            .div_ceil(self.threads * self.rows_per_thread);
        steps * self.rows_per_thread * self.warps()
    }

    #[inline]
    fn row(&self, rows: usize, block: usize, access: usize, lane: usize) -> Option<usize> {
        let morsel = self.morsel(rows, block);
        let warp = access % self.warps();
        let item = access / self.warps() % self.rows_per_thread;
        let step = access / self.warps() / self.rows_per_thread;
        let thread = step * self.threads + warp * self.lanes + lane;
        let row = morsel.start + thread * self.rows_per_thread + item;
        (row < morsel.end).then_some(row)
    }
}

/// A grid-stride loop: thread `t` of all takes rows `t`, `t` + threads of the grid, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strided {
    blocks: usize,
    threads: usize,
}

impl Strided {
    /// A grid of `blocks` blocks of `threads` threads.
    ///
    /// # Errors
    /// [`LayoutError::Shape`] if threads are not whole warps of 32, or `blocks` is 0.
    pub fn new(blocks: usize, threads: usize) -> Result<Self> {
        let refused = |what, asked, multiple, hint| LayoutError::Shape {
            what,
            asked,
            multiple,
            hint,
        };
        if threads == 0 || !threads.is_multiple_of(WIDEST as usize) {
            let hint = "blocks are whole warps";
            return Err(refused("threads per block", threads, WIDEST as usize, hint));
        }
        if blocks == 0 {
            return Err(refused("blocks", 0, 1, "a grid has blocks"));
        }
        Ok(Self { blocks, threads })
    }
}

impl AccessPattern for Strided {
    fn blocks(&self, rows: usize) -> usize {
        self.blocks.min(rows.div_ceil(self.threads))
    }

    fn accesses(&self, rows: usize, block: usize) -> usize {
        let steps = rows
            .saturating_sub(block * self.threads)
            .div_ceil(self.blocks * self.threads);
        steps * (self.threads / self.lanes())
    }

    #[inline]
    fn row(&self, rows: usize, block: usize, access: usize, lane: usize) -> Option<usize> {
        let warps = self.threads / self.lanes();
        let (step, warp) = (access / warps, access % warps);
        let row = (step * self.blocks + block) * self.threads + warp * self.lanes() + lane;
        (row < rows).then_some(row)
    }
}
