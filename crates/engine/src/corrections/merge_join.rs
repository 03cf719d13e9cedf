//! Sort-merge joins keep their filters when a projection moves below them.
//!
//! DataFusion's projection push-down gives a sort-merge join other inputs, but its filter keeps the old
//! column numbers. So joins with a filter are hidden from that rule.

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::SortMergeJoinExec;
use std::sync::Arc;

/// Whether the operator is a sort-merge join with a filter.
pub(super) fn has_filter(node: &Arc<dyn ExecutionPlan>) -> bool {
    let join = node.downcast_ref::<SortMergeJoinExec>();
    join.is_some_and(|join| join.filter().is_some())
}
