//! Properties of nodes of physical plans that placement uses.

use super::plan_node::PlanNode;
use datafusion::common::{JoinSide, Statistics};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use galatea_base::reason::Reason;
use std::sync::Arc;

/// The statistics of a plan's rows, if it has any.
pub(super) fn statistics(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<Statistics>> {
    let context = StatisticsContext::new();
    context.compute(plan.as_ref(), &StatisticsArgs::new()).ok()
}

/// The node with the arguments of an aggregate: itself, or the partial one below a final one.
pub(super) fn first_step(aggregate: &AggregateExec) -> Result<&AggregateExec, Reason> {
    match aggregate.mode() {
        AggregateMode::Final | AggregateMode::FinalPartitioned => {
            let mut input = aggregate.input();
            while let PlanNode::Arrangement(next) = PlanNode::of(input) {
                input = next;
            }
            match PlanNode::of(input) {
                PlanNode::Aggregate(partial) if matches!(partial.mode(), AggregateMode::Partial) => {
                    Ok(partial)
                }
                _ => Err(node("AggregateExec", "a final aggregate without its partial one")),
            }
        }
        AggregateMode::Single | AggregateMode::SinglePartitioned => Ok(aggregate),
        AggregateMode::Partial | AggregateMode::PartialReduce => {
            Err(node("AggregateExec", "a partial aggregate without its final one"))
        }
    }
}

/// Why a node stays on the CPU.
pub(super) fn node(node: &str, detail: impl Into<String>) -> Reason {
    Reason::Node {
        node: node.into(),
        detail: detail.into(),
    }
}

/// Refuses a plan that reads a stream: a pipeline collects all of its rows before it returns the first.
pub(super) fn ends(plan: &Arc<dyn ExecutionPlan>) -> Result<(), Reason> {
    if plan.boundedness().is_unbounded() {
        return Err(node(plan.name(), "its input has no end"));
    }
    Ok(())
}

/// Why a join stays on the CPU.
pub(super) fn refuse(detail: impl Into<String>) -> Reason {
    node("HashJoinExec", detail)
}

/// The key of one side of a pair of join keys.
pub(super) fn key_of(
    pair: &(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>),
    side: JoinSide,
) -> &Arc<dyn PhysicalExpr> {
    match side {
        JoinSide::Right => &pair.1,
        _ => &pair.0,
    }
}

/// The input of a join on one side.
pub(super) fn input(join: &HashJoinExec, side: JoinSide) -> &Arc<dyn ExecutionPlan> {
    match side {
        JoinSide::Right => join.right(),
        _ => join.left(),
    }
}

/// The opposite side.
pub(super) fn other(side: JoinSide) -> JoinSide {
    match side {
        JoinSide::Right => JoinSide::Left,
        _ => JoinSide::Right,
    }
}

/// The sides, larger first.
pub(super) fn by_size(left: &Arc<dyn ExecutionPlan>, right: &Arc<dyn ExecutionPlan>) -> [JoinSide; 2] {
    match (size(left), size(right)) {
        (Some(left), Some(right)) if left > right => [JoinSide::Left, JoinSide::Right],
        _ => [JoinSide::Right, JoinSide::Left],
    }
}

/// Assumed bytes of a row of a table if only its size in bytes is known.
const ROW_BYTES: usize = 64;

/// Rows of the largest table under a plan.
fn size(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let children = plan.children();
    if !children.is_empty() {
        let sizes: Option<Vec<usize>> = children.into_iter().map(size).collect();
        return sizes?.into_iter().max();
    }
    let known = statistics(plan)?;
    let bytes = known.total_byte_size.get_value().map(|bytes| bytes / ROW_BYTES);
    known.num_rows.get_value().copied().or(bytes)
}

/// Whether a node is the first step of an aggregate.
pub(super) fn is_partial(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let partial =
        |mode: &AggregateMode| matches!(mode, AggregateMode::Partial | AggregateMode::PartialReduce);
    matches!(PlanNode::of(plan), PlanNode::Aggregate(aggregate) if partial(aggregate.mode()))
}

/// Whether a plan reads any rows.
pub(super) fn has_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    match plan.children().as_slice() {
        [] => !matches!(PlanNode::of(plan), PlanNode::Constant),
        children => children.iter().any(|child| has_rows(child)),
    }
}

/// The reason for a node that has work of its own and no device version; `None` for nodes that read, write or
/// rearrange rows, or select their device at run time.
pub(super) fn unsupported(plan: &Arc<dyn ExecutionPlan>) -> Option<Reason> {
    let works = match PlanNode::of(plan) {
        PlanNode::Filter(_)
        | PlanNode::Sample(_)
        | PlanNode::Aggregate(_)
        | PlanNode::Join(_)
        | PlanNode::Window(_)
        | PlanNode::Sort(_)
        | PlanNode::Other => true,
        // It runs its terms, and UNION drops rows that earlier steps have returned.
        PlanNode::Recursion(query) => query.is_distinct(),
        PlanNode::Scan(_)
        | PlanNode::Arrangement(_)
        | PlanNode::Projection(_)
        | PlanNode::Union(_)
        | PlanNode::Merge(_)
        | PlanNode::Requirement(_)
        | PlanNode::Limit { .. }
        | PlanNode::Constant
        | PlanNode::Passive => false,
    };
    (works && has_rows(plan)).then(|| node(plan.name(), "this operator has no device version"))
}

/// Whether a node sorts groups, or takes the first rows of a result. These are few rows: the query's work is
/// below it.
pub(super) fn orders_result(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let PlanNode::Sort(sort) = PlanNode::of(plan) else {
        return false;
    };
    let mut below = sort.input();
    loop {
        below = match PlanNode::of(below) {
            PlanNode::Aggregate(_) => return true,
            PlanNode::Projection(projection) => projection.input(),
            PlanNode::Filter(filter) => filter.input(),
            PlanNode::Arrangement(input) => input,
            _ => return sort.fetch().is_some(),
        };
    }
}
