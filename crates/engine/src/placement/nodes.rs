//! Nodes of physical plans, as placement looks at them.

use crate::report::PlanReport;
use datafusion::common::{JoinSide, Statistics};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use galatea_base::reason::Reason;
use std::sync::Arc;

/// What is known of a plan's rows.
pub(super) fn statistics(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<Statistics>> {
    let context = StatisticsContext::new();
    context.compute(plan.as_ref(), &StatisticsArgs::new()).ok()
}

/// Nodes that only move batches about.
pub(super) fn arrangement(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let moves = plan.is::<CoalescePartitionsExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<RepartitionExec>()
        || plan.name() == "CoalesceBatchesExec";
    if moves && plan.fetch().is_none() {
        plan.children().first().copied()
    } else {
        None
    }
}

/// The node with the arguments of an aggregate: itself, or the partial one below a final one.
pub(super) fn first_step(aggregate: &AggregateExec) -> Result<&AggregateExec, Reason> {
    match aggregate.mode() {
        AggregateMode::Final | AggregateMode::FinalPartitioned => {
            let mut input = aggregate.input();
            while let Some(next) = arrangement(input) {
                input = next;
            }
            input
                .downcast_ref::<AggregateExec>()
                .filter(|partial| matches!(partial.mode(), AggregateMode::Partial))
                .ok_or_else(|| node("AggregateExec", "a final aggregate without its partial one"))
        }
        AggregateMode::Single | AggregateMode::SinglePartitioned => Ok(aggregate),
        mode => Err(node("AggregateExec", format!("mode {mode:?}"))),
    }
}

/// Why a node stays on the CPU.
pub(super) fn node(node: &str, detail: impl Into<String>) -> Reason {
    Reason::Node {
        node: node.into(),
        detail: detail.into(),
    }
}

/// Refuses what reads a stream: a pipeline collects all of its rows before it returns the first.
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

/// The key of one side of a pair.
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

/// Bytes of a row of a table of which only the bytes are known.
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
    let aggregate = plan.downcast_ref::<AggregateExec>();
    aggregate.is_some_and(|aggregate| {
        matches!(
            aggregate.mode(),
            AggregateMode::Partial | AggregateMode::PartialReduce
        )
    })
}

/// Whether a plan reads rows of anything.
pub(super) fn has_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    match plan.children().as_slice() {
        [] => !["EmptyExec", "PlaceholderRowExec"].contains(&plan.name()),
        children => children.iter().any(|child| has_rows(child)),
    }
}

/// Nodes that do work of their own and have no device version; the rest read, write or arrange rows, or
/// choose their device when they run.
pub(super) fn unsupported(plan: &Arc<dyn ExecutionPlan>) -> Option<Reason> {
    let arranges = [
        "CoalescePartitionsExec",
        "CoalesceBatchesExec",
        "RepartitionExec",
        "OutputRequirementExec",
        "GlobalLimitExec",
        "LocalLimitExec",
        "CooperativeExec",
        "DataSourceExec",
        "LazyMemoryExec",
        "StoreScanExec",
        "StreamingTableExec",
        "WorkTableExec",
        "WorkRowsExec",
        "ExplainExec",
        "AnalyzeExec",
        "SortPreservingMergeExec",
        "DataSinkExec",
        "ProjectionExec",
        "ScalarSubqueryExec",
        "UnionExec",
    ];
    let name = plan.name();
    let chooses = PlanReport::READERS.contains(&name);
    // Goes through its steps, and with UNION drops rows that came before.
    let steps = (plan.downcast_ref::<RecursiveQueryExec>()).is_some_and(|query| !query.is_distinct());
    (!arranges.contains(&name) && !chooses && !steps && has_rows(plan)).then(|| Reason::Node {
        node: name.to_string(),
        detail: "this operator has no device version".into(),
    })
}

/// Whether a node puts a few result rows in order: groups, or the first rows of a result. Wherever it runs,
/// the query's work is below.
pub(super) fn orders_result(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let Some(sort) = plan.downcast_ref::<SortExec>() else {
        return false;
    };
    let mut below = sort.input();
    while !below.is::<AggregateExec>() && below.children().len() == 1 && is_narrow(below) {
        below = below.children()[0];
    }
    sort.fetch().is_some() || below.is::<AggregateExec>()
}

/// Whether a node returns the rows of its input, or some of them.
fn is_narrow(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<ProjectionExec>() || plan.is::<FilterExec>() || plan.is::<CoalescePartitionsExec>()
}
