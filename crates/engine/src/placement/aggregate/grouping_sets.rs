//! GROUPING SETS, ROLLUP and CUBE: the union of one plain aggregate for each set.
//!
//! ```text
//! SELECT a, b, sum(x) FROM t GROUP BY ROLLUP (a, b)
//!
//! t ── groups by a, b: sum(x) ── a,    b,    0, sum(x) ──┐
//! t ── groups by a: sum(x) ───── a,    NULL, 1, sum(x) ──┼── union
//! t ── one group: sum(x) ─────── NULL, NULL, 3, sum(x) ──┘
//! ```
//!
//! DataFusion's aggregate has all sets in one node, and a column with the number of the set, which
//! distinguishes a NULL key from a key that the set leaves out. Here each set is a pipeline of its own, with
//! the strategy for its number of groups; columns are on the device after the first. The input is read once
//! for each set, so it must return the same rows every time.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::union::UnionExec;

use crate::placement::aggregate::distinct::call_of;
use crate::placement::nodes::{first_step, node};
use crate::placement::plan_node::PlanNode;
use galatea_base::reason::Reason;

/// The aggregate of one set.
pub(in crate::placement) struct GroupingSet {
    /// Groups only by the keys of the set.
    pub(in crate::placement) aggregate: Arc<dyn ExecutionPlan>,
    /// The columns of all sets, over those of `aggregate`.
    columns: Vec<ProjectionExpr>,
}

/// The sets of an aggregate, or why they are not separated; `None` for other nodes.
pub(in crate::placement) fn sets(plan: &Arc<dyn ExecutionPlan>) -> Option<Result<Vec<GroupingSet>, Reason>> {
    let PlanNode::Aggregate(aggregate) = PlanNode::of(plan) else {
        return None;
    };
    let first = first_step(aggregate).ok()?;
    let group_by = first.group_expr();
    if !group_by.has_grouping_set() {
        return None;
    }
    if !gives_same_rows(first.input()) {
        return Some(Err(node(
            "AggregateExec",
            "grouping sets over rows that may change",
        )));
    }
    let groups = group_by.groups();
    let number = |at: usize| {
        let left_out = groups[at].iter();
        let keys = left_out.fold(0_u64, |bits, left_out| bits << 1 | u64::from(*left_out));
        // Repeated sets are numbered above the bits of the keys.
        let again = groups[..at].iter().filter(|other| **other == groups[at]).count() as u64;
        keys | again << group_by.expr().len()
    };
    let sets = groups.iter().enumerate();
    let sets = sets.map(|(at, left_out)| set(first, left_out, number(at), &plan.schema()));
    let all: Option<Vec<GroupingSet>> = sets.collect();
    Some(all.ok_or_else(|| node("AggregateExec", "grouping sets")))
}

/// The union of the sets of an aggregate; `None` for other nodes, and if the sets are not separated.
pub(in crate::placement) fn as_union(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let sets = sets(plan)?.ok()?;
    let aggregates = sets.iter().map(|set| Arc::clone(&set.aggregate));
    let aggregates = aggregates.collect();
    union(sets, aggregates, &plan.schema())
}

/// The aggregate of the set that leaves out these keys and has this number.
fn set(first: &AggregateExec, left_out: &[bool], number: u64, output: &SchemaRef) -> Option<GroupingSet> {
    let group_by = first.group_expr();
    let keys = group_by.expr().iter().zip(left_out);
    let keys: Vec<_> = keys
        .filter(|(_, left_out)| !**left_out)
        .map(|(key, _)| key.clone())
        .collect();
    let own = keys.len();
    let (mut calls, mut filters) = (first.aggr_expr().to_vec(), first.filter_expr().to_vec());
    if keys.is_empty() && calls.is_empty() {
        // Without keys the only group is a row, too, which needs a column.
        let one: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(ScalarValue::Int64(Some(1))));
        calls.push(call_of(
            count_udaf(),
            one,
            &first.input().schema(),
            "rows".to_owned(),
        )?);
        filters.push(None);
    }
    let aggregate = AggregateExec::try_new(
        AggregateMode::Single,
        PhysicalGroupBy::new_single(keys),
        calls,
        filters,
        Arc::clone(first.input()),
        first.input().schema(),
    );
    let aggregate: Arc<dyn ExecutionPlan> = Arc::new(aggregate.ok()?);
    let schema = aggregate.schema();
    let column =
        |index: usize| -> Arc<dyn PhysicalExpr> { Arc::new(Column::new(schema.field(index).name(), index)) };
    let mut expressions = Vec::with_capacity(output.fields().len());
    let mut next = 0;
    for ((null, _), left_out) in group_by.null_expr().iter().zip(left_out) {
        expressions.push(match left_out {
            true => Arc::clone(null),
            false => {
                next += 1;
                column(next - 1)
            }
        });
    }
    let id_type = output.field(expressions.len()).data_type();
    let id = ScalarValue::UInt64(Some(number)).cast_to(id_type).ok()?;
    expressions.push(Arc::new(Literal::new(id)));
    expressions.extend((own..own + first.aggr_expr().len()).map(column));
    let columns = expressions.into_iter().zip(output.fields());
    let columns = columns.map(|(expr, field)| ProjectionExpr::new(expr, field.name().clone()));
    Some(GroupingSet {
        aggregate,
        columns: columns.collect(),
    })
}

/// The union of the sets; `placed` compute their aggregates. `None` if its schema differs from the one that
/// DataFusion plans.
pub(in crate::placement) fn union(
    sets: Vec<GroupingSet>,
    placed: Vec<Arc<dyn ExecutionPlan>>,
    output: &SchemaRef,
) -> Option<Arc<dyn ExecutionPlan>> {
    let parts = sets.into_iter().zip(placed).map(|(set, placed)| {
        let part = ProjectionExec::try_new(set.columns, placed).ok()?;
        Some(Arc::new(part) as Arc<dyn ExecutionPlan>)
    });
    let union = UnionExec::try_new(parts.collect::<Option<Vec<_>>>()?).ok()?;
    (union.schema() == *output).then_some(union)
}

/// Whether the plan returns the same rows in every run: it contains nothing random and no limit.
pub(in crate::placement) fn gives_same_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut same = plan.fetch().is_none();
    let looked = plan.apply_expressions(&mut |expression| {
        same &= !is_volatile(expression);
        Ok(TreeNodeRecursion::Continue)
    });
    same && looked.is_ok() && plan.children().into_iter().all(gives_same_rows)
}
