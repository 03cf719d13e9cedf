//! Filters stay above projections that compute volatile columns.
//!
//! DataFusion pushes filters and dynamic filters through physical projections, and replaces columns by their
//! expressions. A filter over `random()` would then test another number than the projection returns.

use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;

/// Whether an operator computes a volatile column.
pub(super) fn computes_them(node: &Arc<dyn ExecutionPlan>) -> bool {
    let projection = node.downcast_ref::<ProjectionExec>();
    projection.is_some_and(|projection| projection.expr().iter().any(|column| is_volatile(&column.expr)))
}
