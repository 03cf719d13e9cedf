//! Options of a generated kernel besides its plan and data.

use crate::choices::{GroupBy, GroupCombine, LookupMemory, RowOutput, Selection};
use galatea_kernels::heap::HeapBuild;
use galatea_layout::model::Machine;

/// Tuning options of a generated kernel that do not depend on the data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KernelOptions {
    /// Threads per block: a power of two from 32 to 1024, or 0 to choose by pipeline.
    pub block: u32,
    /// Maximum number of rows per thread; the generator uses fewer for expensive rows. A power of two up to
    /// 16.
    pub items: u32,
    /// Maximum bytes of shared memory per block.
    pub shared_bytes: u64,
    /// The device model of grouped aggregation.
    pub machine: Machine,
    /// Whether the kernel may wait for chunks that arrive while it runs. Most kernels need not; waiting takes
    /// registers and compile time.
    pub awaits: bool,
    /// Forces every hash to zero, to test long probe sequences.
    pub collide: bool,
    /// Whether the first runs use a kernel that is compiled with little optimisation.
    pub quick: bool,
    /// Forced group-by strategy.
    pub group_by: GroupBy,
    /// Forced number of copies; 0 if not forced.
    pub group_copies: u32,
    /// Forced pre-aggregation of a group's rows.
    pub group_combine: GroupCombine,
    /// Maximum bytes of all copies of dense groups in global memory.
    pub copies_bytes: u64,
    /// Maximum bytes of a fully sized hash table.
    pub hash_table_bytes: u64,
    /// Where returned rows are written.
    pub row_output: RowOutput,
    /// Whether the rows to sort are all rows of a table, which may already be sorted.
    pub in_order: bool,
    /// How the use of the heap of rows in pages is compiled.
    pub heap: HeapBuild,
    /// The memory that holds build sides for lookups.
    pub build_sides: LookupMemory,
    /// When columns are loaded that only some rows need.
    pub selection: Selection,
}

impl KernelOptions {
    /// Whether the lanes of a warp combine their rows of a group before one update in global memory. This is
    /// free even if all groups differ: atomics take longer, and lanes that execute together issue them
    /// together (a million groups in a hash table, 100 million rows on an H200: 3.7 ms instead of 5.4 ms).
    pub fn aggregates_warps(&self) -> bool {
        matches!(self.group_combine, GroupCombine::Auto | GroupCombine::Warps)
    }
}
