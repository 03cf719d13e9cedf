//! Expressions and calls of aggregates as errors show them.
//!
//! DataFusion computes a repeated expression of a plan once, in a projection, and gives the column a
//! generated name (`__common_expr_1`). Errors show the expression instead of the column, and the call of an
//! aggregate instead of its result column, which may have any name.

use super::sum::call_text;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::window::{PlainAggregateWindowExpr, SlidingAggregateWindowExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use std::collections::HashMap;
use std::sync::Arc;

/// The prefix of those names, which DataFusion does not export.
const COMMON: &str = "__common_expr_";

/// The expressions behind a plan's columns with such names.
#[derive(Debug, Default)]
pub(crate) struct CommonExpressions(HashMap<String, PhysicalExprRef>);

impl CommonExpressions {
    /// Those of all projections of the plan.
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>) -> Self {
        let mut found = HashMap::new();
        // The closure returns no error.
        let _ = plan.apply(|node| {
            if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
                for part in projection.expr() {
                    // Projections above pass the column through.
                    if part.alias.starts_with(COMMON) && !part.expr.is::<Column>() {
                        found.insert(part.alias.clone(), Arc::clone(&part.expr));
                    }
                }
            }
            Ok(TreeNodeRecursion::Continue)
        });
        Self(found)
    }

    /// The expression with such columns replaced by their expressions; `None` if it has no such column.
    pub(crate) fn shown(&self, expression: &PhysicalExprRef) -> Option<PhysicalExprRef> {
        if self.0.is_empty() {
            return None;
        }
        let shown = Arc::clone(expression).transform_down(|part| {
            let column = part.downcast_ref::<Column>();
            let common = column.and_then(|column| self.0.get(column.name()));
            Ok(match common {
                // A common expression may contain another one.
                Some(common) => Transformed::yes(self.shown(common).unwrap_or_else(|| Arc::clone(common))),
                None => Transformed::no(part),
            })
        });
        shown
            .ok()
            .filter(|shown| shown.transformed)
            .map(|shown| shown.data)
    }
}

/// The call of an aggregate with a result column of that name, in an operator of the plan.
pub(crate) fn call_of_column(plan: &Arc<dyn ExecutionPlan>, column: &str) -> Option<String> {
    let mut found = None;
    // The closure returns no error.
    let _ = plan.apply(|node| {
        let call = calls(node).into_iter().find(|call| call.name() == column);
        found = call.map(|call| {
            let function = (call.name(), call.fun().name());
            call_text(function, call.is_distinct(), &call.expressions())
        });
        Ok(match found {
            Some(_) => TreeNodeRecursion::Stop,
            None => TreeNodeRecursion::Continue,
        })
    });
    found
}

/// The aggregates that a node computes, also over windows.
fn calls(node: &Arc<dyn ExecutionPlan>) -> Vec<&AggregateFunctionExpr> {
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return aggregate.aggr_expr().iter().map(AsRef::as_ref).collect();
    }
    let windows = if let Some(window) = node.downcast_ref::<WindowAggExec>() {
        window.window_expr()
    } else if let Some(window) = node.downcast_ref::<BoundedWindowAggExec>() {
        window.window_expr()
    } else {
        return Vec::new();
    };
    let aggregates = windows.iter().filter_map(|window| {
        let window = window.as_any();
        let plain = window.downcast_ref::<PlainAggregateWindowExpr>();
        let sliding = window.downcast_ref::<SlidingAggregateWindowExpr>();
        (plain.map(PlainAggregateWindowExpr::get_aggregate_expr))
            .or_else(|| sliding.map(SlidingAggregateWindowExpr::get_aggregate_expr))
    });
    aggregates.collect()
}
