//! A pipeline bound to the encodings of its columns.

use super::accumulators::AccumulatorPlan;
use super::build_plan::{
    BuildPlan, GroupBuildPlan, ListsPlan, MarkPlan, PartitionPlan, ProbePlan, StorePlan, WindowsPlan,
};
use super::column_access::ColumnAccess;
use super::group_key::GroupKey;
use super::output::RowsPlan;
use super::strategy::Strategy;
use galatea_expression::Parameters;
use std::sync::Arc;

/// A pipeline ready to compile and run.
#[derive(Debug, Clone)]
pub struct BoundPipeline {
    /// The kernel, entry `pipeline`.
    pub source: Arc<str>,
    /// Literals and lookup tables.
    pub parameters: Parameters,
    /// The columns it reads, in kernel order.
    pub columns: Vec<ColumnAccess>,
    /// How rows are collected.
    pub strategy: Strategy,
    /// What to make of the sink's contents.
    pub result: ResultPlan,
    /// Threads of a block.
    pub block: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub dynamic_shared: u32,
    /// Rows of a thread in a step.
    pub items: u32,
    /// Rows of a morsel.
    pub morsel_rows: u32,
    /// Whether its rows are in partitions.
    pub in_partitions: bool,
    /// Whether its kernel can wait for chunks that come while it runs.
    pub awaits: bool,
    /// Whether hashes are forced to collide.
    pub collide: bool,
    /// Rows of the table it was bound to: sums were proven to fit for that many.
    pub rows: u64,
    /// Guess of the share of rows that pass the filters.
    pub selectivity: f64,
    /// Why dense groups are collected as they are.
    pub why: Option<String>,
    /// Of each dimension which memory it is looked up in, and why, for EXPLAIN.
    pub dimensions: Vec<String>,
}

/// What the host makes of a sink's contents.
#[derive(Debug, Clone)]
pub enum ResultPlan {
    /// Groups of accumulator words; `key` is `None` for the single group of a scalar aggregate.
    Groups {
        /// The group key.
        key: Option<GroupKey>,
        /// The accumulators.
        accumulators: AccumulatorPlan,
        /// Word that tells used groups of a dense strategy from unused ones.
        occupied: Option<usize>,
    },
    /// Columns of rows.
    Rows(RowsPlan),
    /// A build side, which stays on the device.
    Build(BuildPlan),
    /// Groups that stay on the device as a build side.
    BuildGroups(GroupBuildPlan),
    /// The build side of a join whose keys repeat, which stays on the device.
    Lists(ListsPlan),
    /// The probe side of such a join, which stays on the device.
    Probe(ProbePlan),
    /// Which of its rows fulfil the condition.
    Mark(MarkPlan),
    /// Rows in the order of a window, which stay on the device.
    Windows(WindowsPlan),
    /// Rows by position, which stay on the device.
    Store(StorePlan),
    /// Rows in partitions, which stay on the device.
    Partition(PartitionPlan),
}

impl BoundPipeline {
    /// Words of a group in global memory: key words of a hash slot, then accumulators.
    pub fn slot_words(&self) -> usize {
        match &self.result {
            ResultPlan::Groups {
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
            | ResultPlan::Lists(_)
            | ResultPlan::Probe(_)
            | ResultPlan::Mark(_)
            | ResultPlan::Windows(_)
            | ResultPlan::Store(_)
            | ResultPlan::Partition(_) => 0,
        }
    }
}
