//! Sinks: where the surviving rows of a pipeline go.
//!
//! Each sink is a type that writes its part of the kernel (`Sink`), and a file of its own:
//!
//! | sink | accumulators of a group | merge |
//! | --- | --- | --- |
//! | `scalar` | registers of each thread | warp, block, then one atomic a word and block |
//! | `shared` | replicated in shared memory, or registers | per group and word, then one atomic a block |
//! | `dense` | `groups[copy][group]` in global memory | copies are added up after the last launch |
//! | `hash` | slot of a hash table in global memory, or overflow rows in heap pages | overflow rows, between launches |
//! | `append` | not groups: rows at a cursor | none; drained by the host between launches, or held until the last one and sorted |
//! | `build` | not groups: arrays by key; or groups in arrays by key, as in `dense` | none |
//! | `lists`, `probe` | not groups: rows by position, those of a join whose keys repeat | none |
//! | `store` | not groups: rows by position, a part of another pipeline's | none |
//! | `windows` | not groups: rows by position, those of a window | none; sorted after the last launch |
//! | `partition` | not groups: rows by position, those of a partition next to each other; or the number of each partition's rows | none |
//! | `mark` | not groups: a bit for each pair and row of such a join | none |
//! | `chains` | not groups: rows in heap pages, a chain a block | none; gathered, and drained only when the heap is exhausted |
//!
//! Accumulators start at zero everywhere (`aggregate.cuh`), so global memory is cleared by a memset.

pub(super) mod append;
pub(super) mod build;
pub mod chains;
pub(super) mod dense;
pub mod hash;
mod hot;
pub mod lists;
pub mod mark;
pub(super) mod partition;
pub mod probe;
pub(super) mod scalar;
pub(super) mod shared;
mod statements;
pub(super) mod store;
pub(super) mod windows;

pub use statements::add_to_global;

use galatea_expression::code::Code;
use std::fmt::Debug;

/// C++ of the first morsel of a block that does not stop before the end of a launch.
const FIRST_MORSEL: &str = "args.first_morsel + blockIdx.x";

/// Geometry of a launch, as far as the text of the kernel depends on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Geometry {
    /// Threads of a block.
    pub(super) block: u32,
    /// Rows of a thread in a step.
    pub(super) items: u32,
}

/// What a sink contributes to the kernel. The methods are in the order of the text; by default they
/// contribute nothing.
///
/// ```text
/// prologue
/// first_morsel
/// for each morsel of the block
///     begin_morsel
///     for each step of the morsel
///         begin_step
///         before_rows
///         for each live row of the thread
///             row
///         after_rows
///     end_morsel
/// epilogue
/// ```
pub(super) trait Sink: Debug {
    /// Headers beside those of every pipeline.
    fn headers(&self) -> &'static [&'static str] {
        &[]
    }

    /// Dynamic shared memory of a block, in bytes.
    fn dynamic_shared(&self) -> u32 {
        0
    }

    /// Steps of a morsel: one where a block may have to stop between morsels.
    fn steps(&self) -> u32 {
        4
    }

    /// Whether rows are combined by the lanes of a warp: those with a row are then in `active`.
    fn is_warp_aggregated(&self) -> bool {
        false
    }

    /// Before the loop over morsels, by all threads of the block.
    fn prologue(&self, _geometry: Geometry, _code: &mut Code) {}

    /// C++ of the block's first morsel; of the warp's, where warps may stop apart.
    fn first_morsel(&self) -> &'static str {
        FIRST_MORSEL
    }

    /// At the start of each morsel, by all threads; may `break`.
    fn begin_morsel(&self, _code: &mut Code) {}

    /// After `live` has the bits of the rows that exist.
    fn begin_step(&self, _code: &mut Code) {}

    /// Before a thread's rows are collected, by whole warps.
    fn before_rows(&self, _code: &mut Code) {}

    /// Collects live row `i`, whose values have been computed.
    fn row(&self, code: &mut Code);

    /// After a thread's rows have been collected, by whole warps.
    fn after_rows(&self, _code: &mut Code) {}

    /// At the end of each morsel, by all threads; may `break`.
    fn end_morsel(&self, _code: &mut Code) {}

    /// After the loop over morsels, by all threads.
    fn epilogue(&self, _geometry: Geometry, _code: &mut Code) {}
}
