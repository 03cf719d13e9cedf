//! Sinks collect the surviving rows of a pipeline.
//!
//! Each sink is a type that generates its part of the kernel (`Sink`), in its own file:
//!
//! | sink | accumulators of a group | merge |
//! | --- | --- | --- |
//! | `scalar` | registers of each thread | warp, block, then one atomic per word and block |
//! | `shared` | replicated in shared memory, or registers | per group and word, then one atomic per block |
//! | `dense` | `groups[copy][group]` in global memory | copies are added up after the last launch |
//! | `hash` | slot of a hash table in global memory, or overflow rows in heap pages | overflow rows, between launches |
//! | `append` | not groups: rows at a cursor | none; the host reads the rows after each launch, or the device sorts them after the last one |
//! | `build` | not groups: arrays by key; or groups in arrays by key, as in `dense` | none |
//! | `multimap`, `probe` | not groups: rows by position, the sides of a multimap join | none |
//! | `store` | not groups: rows by position, one part of another pipeline's input | none |
//! | `windows` | not groups: rows by position, those of a window | none; sorted after the last launch |
//! | `partition` | not groups: rows by position, those of a partition next to each other; or the number of rows per partition | none |
//! | `mark` | not groups: a bit for each pair of a join, and for each probe and build row | none |
//! | `chains` | not groups: rows in heap pages, one chain per block | none; gathered after the last launch, and before only if the heap is exhausted |
//!
//! Accumulators start at zero everywhere (`aggregate.cuh`), so global memory is cleared by a memset.
//!
//! A sink keeps its name from the plan to the result. Aggregates and rows have several strategies:
//!
//! | [`SinkPlan`](crate::SinkPlan), [`ResultPlan`](crate::bound::ResultPlan) | [`Strategy`](crate::strategy::Strategy) | memory of a run (`execution/sinks.rs`) |
//! | --- | --- | --- |
//! | `Aggregate` | `Scalar`, `Shared`, `Dense` | `Array` |
//! | `Aggregate` | `Hash` | `Hash` |
//! | `Rows` | `Append`, `Chains`, `Sort` | the same |
//! | `Build`, `BuildGroups`, `Multimap`, `Probe`, `Mark`, `Windows`, `Store`, `Partition` | the same | `Build` |

pub(super) mod append;
pub(super) mod build;
pub mod chains;
pub(super) mod dense;
pub mod hash;
mod hot;
pub mod mark;
pub mod multimap;
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

/// The launch geometry, on which the source of the kernel depends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Geometry {
    /// Threads per block.
    pub(super) block: u32,
    /// Rows per thread in a step.
    pub(super) items: u32,
}

/// The parts of the kernel that a sink generates. The methods are in the order of the generated code. By
/// default they generate nothing.
///
/// ```text
/// prologue
/// resumed_morsel
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
    /// Headers besides those of every pipeline.
    fn headers(&self) -> &'static [&'static str] {
        &[]
    }

    /// Dynamic shared memory of a block, in bytes.
    fn dynamic_shared(&self) -> u32 {
        0
    }

    /// Steps per morsel: one if a block may have to stop between morsels.
    fn steps(&self) -> u32 {
        4
    }

    /// Whether the lanes of a warp combine their rows; the lanes with a row are then in `active`.
    fn is_warp_aggregated(&self) -> bool {
        false
    }

    /// Statements before the loop over morsels, run by all threads of the block.
    fn prologue(&self, _geometry: Geometry, _code: &mut Code) {}

    /// C++ expression of the first morsel of the block, or of the warp, if blocks or warps may stop before
    /// the end of a launch and resume in the next one.
    fn resumed_morsel(&self) -> Option<&'static str> {
        None
    }

    /// Statements at the start of each morsel, run by all threads; may `break`.
    fn begin_morsel(&self, _code: &mut Code) {}

    /// Statements after `live` is set to the bits of the rows that exist.
    fn begin_step(&self, _code: &mut Code) {}

    /// Statements before a thread's rows are collected, run by whole warps.
    fn before_rows(&self, _code: &mut Code) {}

    /// Collects live row `i` after its values have been computed.
    fn row(&self, code: &mut Code);

    /// Statements after a thread's rows have been collected, run by whole warps.
    fn after_rows(&self, _code: &mut Code) {}

    /// Statements at the end of each morsel, run by all threads; may `break`.
    fn end_morsel(&self, _code: &mut Code) {}

    /// Statements after the loop over morsels, run by all threads.
    fn epilogue(&self, _geometry: Geometry, _code: &mut Code) {}
}
