//! What a generated kernel is made by besides its plan and data.

use crate::choices::{DimensionMemory, GroupBy, GroupCombine, RowOutput};
use galatea_layout::model::Machine;

/// Tuning of a generated kernel that is not decided by the data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KernelOptions {
    /// Threads of a block: a power of two from 32 to 1024; 0: whatever suits the pipeline.
    pub block: u32,
    /// Most rows a thread holds; the generator takes fewer for expensive rows. A power of two up to 16.
    pub items: u32,
    /// Shared memory a block may ask for.
    pub shared_bytes: u64,
    /// What the model of grouped aggregation knows of the device.
    pub machine: Machine,
    /// Whether it may wait for chunks that come while it runs. Most need not: that takes registers, and time
    /// to compile.
    pub awaits: bool,
    /// Makes every hash zero, for tests of long probe sequences.
    pub collide: bool,
    /// Whether its first runs take a kernel for which the compiler makes little effort.
    pub quick: bool,
    /// Forced group-by strategy.
    pub group_by: GroupBy,
    /// Forced number of copies, 0: none.
    pub group_copies: u32,
    /// Which rows of a group are added up first, if that is forced.
    pub group_combine: GroupCombine,
    /// Most bytes of all copies of dense groups in global memory.
    pub copies_bytes: u64,
    /// Most bytes of a fully sized hash table.
    pub hash_table_bytes: u64,
    /// Where rows that are returned go.
    pub row_output: RowOutput,
    /// Whether rows that are to be sorted are all of a table's, which may be in order there.
    pub in_order: bool,
    /// Which memory dimensions are looked up in.
    pub dimensions: DimensionMemory,
}

impl KernelOptions {
    /// Whether the lanes of a warp combine their rows of a group before one update in global memory. That
    /// costs nothing even where all groups differ: atomics take longer, and lanes that execute together issue
    /// them together (a million groups in a hash table, 100 million rows on an H200: 3.7 ms instead of 5.4).
    pub fn aggregates_warps(&self) -> bool {
        matches!(self.group_combine, GroupCombine::Auto | GroupCombine::Warps)
    }
}
