//! A pipeline bound to the encodings of its columns.

use super::accumulators::AccumulatorPlan;
use super::build_plan::{
    BuildPlan, GroupBuildPlan, MarkPlan, MultimapPlan, PartitionPlan, ProbePlan, StorePlan, WindowsPlan,
};
use super::column_access::ColumnAccess;
use super::group_key::GroupKey;
use super::output::RowsPlan;
use super::strategy::Strategy;
use galatea_expression::Parameters;
use galatea_kernels::heap::HeapBuild;
use std::sync::Arc;

/// A pipeline that is ready to be compiled and run.
#[derive(Debug, Clone)]
pub struct BoundPipeline {
    /// Source of the kernel; its entry point is `pipeline`.
    pub source: Arc<str>,
    /// Literals and lookup tables.
    pub parameters: Parameters,
    /// The columns that the kernel reads, in kernel order.
    pub columns: Vec<ColumnAccess>,
    /// How rows are collected.
    pub strategy: Strategy,
    /// How results are computed from the sink's contents.
    pub result: ResultPlan,
    /// Threads of a block.
    pub block: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub dynamic_shared: u32,
    /// Rows per thread in a step.
    pub items: u32,
    /// Rows of a morsel.
    pub morsel_rows: u32,
    /// How blocks divide the morsels of a launch.
    pub morsel_order: MorselOrder,
    /// Whether the kernel can wait for chunks that arrive while it runs.
    pub awaits: bool,
    /// How the use of the heap of rows in pages is compiled.
    pub heap: HeapBuild,
    /// Whether all hashes are forced to collide.
    pub collide: bool,
    /// Number of rows of the table at binding; sums are proven to fit for this number of rows.
    pub rows: u64,
    /// Estimated share of rows that pass the filters.
    pub selectivity: f64,
    /// Reason for the strategy of dense groups, for EXPLAIN.
    pub why: Option<String>,
    /// For each build side, the memory that it is looked up in and the reason, for EXPLAIN.
    pub build_sides: Vec<String>,
}

/// How the blocks of a launch divide its morsels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MorselOrder {
    /// A block takes every grid-th morsel.
    Strided,
    /// The same over partitioned rows, for sinks that resume a block at its morsel. Launches are short, so
    /// that blocks do not drift apart.
    StridedClosely,
    /// Blocks over partitioned rows claim one morsel after the other, so that all blocks read nearby rows.
    Claimed,
}

/// How results are computed from a sink's contents.
#[derive(Debug, Clone)]
pub enum ResultPlan {
    /// Groups of accumulator words; `key` is `None` for the single group of a scalar aggregate.
    Aggregate {
        /// The group key.
        key: Option<GroupKey>,
        /// The accumulators.
        accumulators: AccumulatorPlan,
        /// Word that is nonzero if a group of a dense strategy is used.
        occupied: Option<usize>,
    },
    /// Columns of rows.
    Rows(RowsPlan),
    /// A build side, which stays on the device.
    Build(BuildPlan),
    /// Groups that stay on the device as a build side.
    BuildGroups(GroupBuildPlan),
    /// The multimap build side of a join, which stays on the device.
    Multimap(MultimapPlan),
    /// The probe side of such a join, which stays on the device.
    Probe(ProbePlan),
    /// Bitmaps of the pairs and rows that fulfil a join condition.
    Mark(MarkPlan),
    /// Rows in the order of a window, which stay on the device.
    Windows(WindowsPlan),
    /// Rows by position, which stay on the device.
    Store(StorePlan),
    /// Partitioned rows, which stay on the device.
    Partition(PartitionPlan),
}

impl BoundPipeline {
    /// Words per group in global memory: key words of a hash slot, then accumulators.
    pub fn slot_words(&self) -> usize {
        match &self.result {
            ResultPlan::Aggregate {
                key, accumulators, ..
            } => {
                let key_words = match (&self.strategy, key) {
                    (Strategy::Hash { .. }, Some(key)) => key.slot_key_words(),
                    _ => 0,
                };
                key_words + accumulators.words
            }
            ResultPlan::Rows(_)
            | ResultPlan::Build(_)
            | ResultPlan::BuildGroups(_)
            | ResultPlan::Multimap(_)
            | ResultPlan::Probe(_)
            | ResultPlan::Mark(_)
            | ResultPlan::Windows(_)
            | ResultPlan::Store(_)
            | ResultPlan::Partition(_) => 0,
        }
    }
}
