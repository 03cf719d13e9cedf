//! GROUPING SETS, ROLLUP and CUBE: the union of one plain aggregate for each set.
//!
//! ```text
//! SELECT a, b, sum(x) FROM t GROUP BY ROLLUP (a, b)
//!
//! t ── groups by a, b: sum(x) ─┬──────────────────────────── a,    b,    0, sum(x) ──┐
//!                              └─ groups by a: sum(sum) ─┬── a,    NULL, 1, sum(x) ──┼── union
//!                                     one group: sum(sum) ── NULL, NULL, 3, sum(x) ──┘
//! ```
//!
//! DataFusion's aggregate has all sets in one node, and a column with the number of the set, which
//! distinguishes a NULL key from a key that the set leaves out. Here each set is a pipeline of its own, with
//! the strategy for its number of groups. [`finest_first`] computes a set from the groups of the smallest set
//! that has all of its keys, if the aggregates can be merged (`steps.rs`): the input is read once. Otherwise
//! ([`as_union`]) each set reads the input; its columns are on the device after the first set. Both need an
//! input that returns the same rows every time, because the CPU and partitions of groups may read it again.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::union::UnionExec;

use crate::graph::gives_same_rows;
use crate::placement::aggregate::steps::{Part, Steps, as_type, call_of, grouped, is_distinct};
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
    let number = |at: usize| number_of(group_by, at);
    let sets = groups.iter().enumerate();
    let sets = sets.map(|(at, left_out)| set(first, left_out, number(at), &plan.schema()));
    let all: Option<Vec<GroupingSet>> = sets.collect();
    Some(all.ok_or_else(|| node("AggregateExec", "grouping sets")))
}

/// The number of the set at that position: a bit for each key that it leaves out. Repeated sets are numbered
/// above these bits.
fn number_of(group_by: &PhysicalGroupBy, at: usize) -> u64 {
    let groups = group_by.groups();
    let left_out = groups[at].iter();
    let keys = left_out.fold(0_u64, |bits, left_out| bits << 1 | u64::from(*left_out));
    let again = groups[..at].iter().filter(|other| **other == groups[at]).count() as u64;
    keys | again << group_by.expr().len()
}

/// The union of the sets of an aggregate; `None` for other nodes, and if the sets are not separated.
pub(in crate::placement) fn as_union(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let sets = sets(plan)?.ok()?;
    let aggregates = sets.iter().map(|set| Arc::clone(&set.aggregate));
    let aggregates = aggregates.collect();
    union(sets, aggregates, &plan.schema())
}

/// The groups of one set, with columns that coarser sets merge.
struct Groups {
    /// The keys of the set, by number, ascending; then the aggregates of the first step.
    plan: Arc<dyn ExecutionPlan>,
    keys: Vec<usize>,
}

/// The union of the sets of an aggregate, coarser sets over the groups of finer ones; `None` for other nodes,
/// if the aggregates cannot be merged, or if no set has the keys of another one.
pub(in crate::placement) fn finest_first(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let PlanNode::Aggregate(aggregate) = PlanNode::of(plan) else {
        return None;
    };
    let first = first_step(aggregate).ok()?;
    let group_by = first.group_expr();
    if !group_by.has_grouping_set() || !gives_same_rows(first.input()) {
        return None;
    }
    let mut steps = Steps::over(first.input().schema());
    let calls = first.aggr_expr().iter().zip(first.filter_expr());
    let parts = calls.map(|(call, filter)| {
        let part = (!is_distinct(call)).then(|| steps.parts(call, filter.as_ref()));
        part.flatten()
    });
    let parts: Vec<Part> = parts.collect::<Option<_>>()?;
    if steps.inner.is_empty() {
        // A group without columns would be no row.
        let one: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(ScalarValue::Int64(Some(1))));
        let rows = call_of(count_udaf(), one, &first.input().schema(), "rows".to_owned())?;
        steps.parts(&rows, None)?;
    }
    let sets: Vec<Vec<usize>> = (group_by.groups().iter())
        .map(|left_out| (0..left_out.len()).filter(|key| !left_out[*key]).collect())
        .collect();
    let mut finest: Vec<usize> = (0..sets.len()).collect();
    finest.sort_by_key(|at| std::cmp::Reverse(sets[*at].len()));
    let mut made: Vec<Groups> = Vec::new();
    let mut merges = false;
    for keys in finest.into_iter().map(|at| &sets[at]) {
        let has_all = |groups: &&Groups| keys.iter().all(|key| groups.keys.contains(key));
        let finer = made.iter().filter(has_all).min_by_key(|groups| groups.keys.len());
        let groups = match finer {
            Some(same) if same.keys == *keys => continue,
            Some(finer) => {
                merges = true;
                merged(finer, keys, &steps)?
            }
            None => from_input(first, keys, &steps)?,
        };
        made.push(groups);
    }
    let sets = sets.iter().enumerate().map(|(at, keys)| {
        let groups = made.iter().find(|groups| groups.keys == *keys)?;
        columns_of(
            groups,
            number_of(group_by, at),
            (group_by, &parts),
            &plan.schema(),
        )
    });
    let sets = sets.collect::<Option<Vec<_>>>().filter(|_| merges)?;
    UnionExec::try_new(sets).ok()
}

/// The groups of a set over the aggregate's input.
fn from_input(first: &AggregateExec, keys: &[usize], steps: &Steps) -> Option<Groups> {
    let all = first.group_expr().expr();
    let own = keys.iter().map(|key| all[*key].clone()).collect();
    let (calls, filters) = steps.inner.iter().cloned().unzip();
    Some(Groups {
        plan: grouped(own, calls, filters, Arc::clone(first.input()))?,
        keys: keys.to_vec(),
    })
}

/// The groups of a set over those of a finer one, with the types of the first step.
fn merged(finer: &Groups, keys: &[usize], steps: &Steps) -> Option<Groups> {
    let schema = finer.plan.schema();
    let before = finer.keys.len();
    let column =
        |index: usize| -> Arc<dyn PhysicalExpr> { Arc::new(Column::new(schema.field(index).name(), index)) };
    let own = keys.iter().map(|key| {
        let at = finer.keys.iter().position(|known| known == key)?;
        Some((column(at), schema.field(at).name().clone()))
    });
    let own = own.collect::<Option<Vec<_>>>()?;
    let calls = steps.outer.iter().enumerate().map(|(at, (function, step))| {
        let argument = column(before + (*step)?);
        let name = schema.field(before + at).name().clone();
        call_of(Arc::clone(function), argument, &schema, name)
    });
    let calls = calls.collect::<Option<Vec<_>>>()?;
    let filters = vec![None; calls.len()];
    let groups = grouped(own, calls, filters, Arc::clone(&finer.plan))?;
    let sums = groups.schema();
    let outputs = sums.fields().iter().enumerate().map(|(at, field)| {
        let value: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), at));
        let value = match at.checked_sub(keys.len()) {
            None => value,
            Some(step) => as_type(value, &sums, schema.field(before + step).data_type())?,
        };
        Some(ProjectionExpr::new(value, field.name().clone()))
    });
    let outputs = outputs.collect::<Option<Vec<_>>>()?;
    Some(Groups {
        plan: Arc::new(ProjectionExec::try_new(outputs, groups).ok()?),
        keys: keys.to_vec(),
    })
}

/// The columns of the aggregate's result over the groups of the set with that number.
fn columns_of(
    groups: &Groups,
    number: u64,
    (group_by, parts): (&PhysicalGroupBy, &[Part]),
    output: &SchemaRef,
) -> Option<Arc<dyn ExecutionPlan>> {
    let schema = groups.plan.schema();
    let own = groups.keys.len();
    let all = group_by.null_expr().iter().enumerate();
    let mut columns: Vec<Arc<dyn PhysicalExpr>> = all
        .map(
            |(key, (null, _))| match groups.keys.iter().position(|known| *known == key) {
                Some(at) => Arc::new(Column::new(schema.field(at).name(), at)) as Arc<dyn PhysicalExpr>,
                None => Arc::clone(null),
            },
        )
        .collect();
    let id = ScalarValue::UInt64(Some(number)).cast_to(output.field(columns.len()).data_type());
    columns.push(Arc::new(Literal::new(id.ok()?)));
    for part in parts {
        let wanted = output.field(columns.len()).data_type();
        columns.push(part.result(own, &schema, wanted)?);
    }
    let types = columns.iter().zip(output.fields());
    let mut types = types.map(|(column, field)| Some(column.data_type(&schema).ok()? == *field.data_type()));
    if !types.all(|same| same == Some(true)) {
        return None;
    }
    let columns = columns.into_iter().zip(output.fields());
    let columns = columns.map(|(expr, field)| ProjectionExpr::new(expr, field.name().clone()));
    let columns: Vec<ProjectionExpr> = columns.collect();
    Some(Arc::new(
        ProjectionExec::try_new(columns, Arc::clone(&groups.plan)).ok()?,
    ))
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
