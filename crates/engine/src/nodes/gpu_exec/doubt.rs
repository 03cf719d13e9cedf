//! Whether the CPU would raise the error that a row raised on the device.
//!
//! Kernels check and guard operands as the CPU's operators do (`checks`), so an error is that of the query if
//! the CPU evaluates every row that the device evaluates. The CPU may stop early or skip rows: below a LIMIT,
//! in inputs of joins (an empty build side, or a dynamic filter that a build side passes to the scan of the
//! other), and in parts of tables that the statistics exclude for a condition behind the error. In these
//! cases, and for functions without a result of the device code for a value, the subtree runs again on the
//! CPU.

use crate::checks::may_raise;
use crate::nodes::GpuExec;
use datafusion::catalog::memory::DataSourceExec;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use galatea_expression::{Fault, Raised};
use galatea_store::StoreScanExec;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Why the CPU may not raise an error that a row raised on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Doubt {
    /// The function on the CPU may have a result.
    Function,
    /// An operator above the subtree may not read all of its rows.
    Reader,
    /// An operator of the subtree may not read all rows of its inputs.
    Operator(String),
    /// The scan may skip rows by a condition that is evaluated after the error.
    Scan,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function => f.write_str("the CPU evaluates the function"),
            Self::Reader => f.write_str("the CPU may stop before the row"),
            Self::Operator(name) => write!(f, "the CPU may skip the row in {name}"),
            Self::Scan => f.write_str("the CPU may skip the row in the scan"),
        }
    }
}

impl Doubt {
    /// The doubt about an error that a row of the subtree raised, if any. `reads_all`: whether all of its
    /// rows are read.
    pub(super) fn of(raised: &Raised, cpu: &Arc<dyn ExecutionPlan>, reads_all: bool) -> Option<Self> {
        match raised.fault() {
            Fault::Function => return Some(Self::Function),
            // Overflows of other types are raised by functions of times.
            Fault::Overflow { data_type, .. } if !(data_type.is_integer() || data_type.is_decimal()) => {
                return Some(Self::Function);
            }
            _ if !reads_all => return Some(Self::Reader),
            _ => {}
        }
        let mut found = None;
        let mut scan = Scan::default();
        // The closure returns no error.
        let _ = cpu.apply(|node| {
            scan.add(node);
            if !reads_inputs(node) && !node.is::<DataSourceExec>() && !node.is::<StoreScanExec>() {
                found = Some(Self::Operator(node.name().to_owned()));
                return Ok(TreeNodeRecursion::Stop);
            }
            Ok(TreeNodeRecursion::Continue)
        });
        found.or_else(|| scan.skips_rows().then_some(Self::Scan))
    }
}

/// The conditions under which scans skip rows.
#[derive(Debug, Default)]
struct Scan {
    /// Whether a source has statistics of its parts and skips parts by them.
    has_statistics: bool,
    /// Whether a condition may raise an error.
    raises: bool,
    /// Whether further conditions are evaluated after such a condition.
    goes_on: bool,
    /// Whether a filter was added, which is above those that are added later.
    filtered: bool,
    /// Whether it has aggregates without groups; DataFusion passes their minima and maxima to scans.
    extremes: bool,
}

impl Scan {
    /// Adds a node of the subtree, from the root down.
    fn add(&mut self, node: &Arc<dyn ExecutionPlan>) {
        if let Some(filter) = node.downcast_ref::<FilterExec>() {
            let schema = filter.input().schema();
            let conditions = split_conjunction(filter.predicate());
            let raising = conditions
                .iter()
                .position(|condition| may_raise(condition, &schema));
            if let Some(raising) = raising {
                self.raises = true;
                self.goes_on |= self.filtered || raising + 1 < conditions.len();
            }
            self.filtered = true;
        } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            let mut calls = aggregate.aggr_expr().iter().map(|call| call.fun().name());
            self.extremes |=
                aggregate.group_expr().is_empty() && calls.any(|name| matches!(name, "min" | "max"));
        } else if let Some(source) = node.downcast_ref::<DataSourceExec>() {
            self.has_statistics |= !source.data_source().is::<MemorySourceConfig>();
            // A condition of the scan itself may raise an error, with others behind it.
            let files = source.data_source().downcast_ref::<FileScanConfig>();
            self.goes_on |= files.is_some_and(|files| files.file_source().filter().is_some());
        } else {
            self.has_statistics |= node.is::<StoreScanExec>();
        }
    }

    fn skips_rows(&self) -> bool {
        self.has_statistics && (self.goes_on || self.raises && self.extremes)
    }
}

/// Whether an operator reads and evaluates all rows of its inputs when all of its own rows are read.
fn reads_inputs(node: &Arc<dyn ExecutionPlan>) -> bool {
    let is_known = node.is::<FilterExec>()
        || node.is::<ProjectionExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<RepartitionExec>()
        || node.is::<CooperativeExec>()
        || node.is::<SortExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<UnionExec>()
        || node.is::<WindowAggExec>()
        || node.is::<BoundedWindowAggExec>()
        || node
            .downcast_ref::<AggregateExec>()
            .is_some_and(|aggregate| aggregate.limit_options().is_none());
    is_known && node.fetch().is_none() && !node.boundedness().is_unbounded()
}

/// Sets `reads_all` of each placed subtree of a finished plan: whether all of its rows are read.
pub(crate) fn note_readers(plan: &Arc<dyn ExecutionPlan>) {
    note(plan, true);
}

fn note(node: &Arc<dyn ExecutionPlan>, reads_all: bool) {
    if let Some(placed) = node.downcast_ref::<GpuExec>() {
        placed
            .reads_all
            .store(reads_all && placed.fetch().is_none(), Ordering::Relaxed);
    }
    let reads_all = reads_all && reads_inputs(node);
    for child in node.children() {
        note(child, reads_all);
    }
}
