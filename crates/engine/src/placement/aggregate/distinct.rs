//! Aggregates of the distinct values of x (COUNT, SUM, AVG and BIT_XOR with DISTINCT), also beside other
//! aggregates, in two steps: groups by the keys and x, then groups of those by the keys.
//!
//! ```text
//! SELECT k, count(DISTINCT x), count(*), avg(a) FROM t GROUP BY k
//!
//! t ── groups by k, x: count(*), sum(a), count(a)
//!              │
//!      groups by k: count(x), sum(count(*)), sum(sum(a)), sum(count(a))
//!              │
//!      k, count(x), sum(count(*)), sum(sum(a)) / sum(count(a))
//! ```
//!
//! DataFusion's optimizer does the same if the others are only SUM, MIN and MAX, and otherwise keeps a set of
//! values for each group. All DISTINCT aggregates must have one argument and one filter (others are classes
//! of their own, see `classes.rs`). `steps.rs` lists the aggregates that may be beside them. A filter
//! replaces the values that it rejects by NULL, which no such aggregate counts. The plan built here serves
//! only to find its pipelines: the CPU would run the original one.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CaseExpr, Column};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use crate::placement::aggregate::steps::{Steps, call_of, grouped, is_distinct};
use crate::placement::nodes::first_step;
use crate::placement::plan_node::PlanNode;

/// An equivalent plan in two steps; `None` if `plan` is no such aggregate.
pub(in crate::placement) fn in_two_steps(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let PlanNode::Aggregate(aggregate) = PlanNode::of(plan) else {
        return None;
    };
    let first = first_step(aggregate).ok()?;
    let argument = distinct_argument(first)?;
    let keys = first.group_expr().expr();
    let number = keys.len();
    let mut groups = keys.to_vec();
    groups.push((argument, "distinct".to_owned()));
    let mut steps = Steps::over(first.input().schema());
    let calls = first.aggr_expr().iter().zip(first.filter_expr());
    let parts = calls
        .map(|(call, filter)| steps.parts(call, filter.as_ref()))
        .collect::<Option<Vec<_>>>()?;
    let (calls, filters): (Vec<_>, Vec<_>) = steps.inner.into_iter().unzip();
    let inner = grouped(groups, calls, filters, Arc::clone(first.input()))?;
    let schema = inner.schema();
    let key = |index: usize, schema: &SchemaRef| -> (Arc<dyn PhysicalExpr>, String) {
        let name = schema.field(index).name();
        (Arc::new(Column::new(name, index)), name.clone())
    };
    let outer_keys = (0..number).map(|index| key(index, &schema)).collect();
    let outer = (steps.outer.into_iter().enumerate())
        .map(|(index, (function, step))| {
            // The distinct values are behind the keys, and the first step's aggregates behind those.
            let (column, _) = key(number + step.map_or(0, |step| 1 + step), &schema);
            call_of(function, column, &schema, format!("step {index}"))
        })
        .collect::<Option<Vec<_>>>()?;
    let filters = vec![None; outer.len()];
    let outer = grouped(outer_keys, outer, filters, inner)?;
    let schema = outer.schema();
    let wanted = plan.schema();
    let results = parts
        .iter()
        .zip(wanted.fields().iter().skip(number))
        .map(|(part, field)| part.result(number, &schema, field.data_type()))
        .collect::<Option<Vec<_>>>()?;
    let columns = (0..number)
        .map(|index| key(index, &schema).0)
        .chain(results)
        .zip(wanted.fields())
        .map(|(expr, field)| ProjectionExpr::new(expr, field.name().clone()));
    let projection = ProjectionExec::try_new(columns.collect::<Vec<_>>(), outer).ok()?;
    let types = |schema: &SchemaRef| -> Vec<DataType> {
        schema
            .fields()
            .iter()
            .map(|field| field.data_type().clone())
            .collect()
    };
    (types(&projection.schema()) == types(&wanted)).then(|| Arc::new(projection) as Arc<dyn ExecutionPlan>)
}

/// The one argument of the DISTINCT calls, NULL if their filter is not true.
fn distinct_argument(first: &AggregateExec) -> Option<Arc<dyn PhysicalExpr>> {
    let calls = first.aggr_expr().iter().zip(first.filter_expr());
    let mut argument: Option<Arc<dyn PhysicalExpr>> = None;
    for (call, filter) in calls.filter(|(call, _)| is_distinct(call)) {
        let [one] = call.expressions().try_into().ok()?;
        let one = match filter {
            Some(filter) => {
                let branch = (Arc::clone(filter), one);
                Arc::new(CaseExpr::try_new(None, vec![branch], None).ok()?)
            }
            None => one,
        };
        if argument.as_ref().is_some_and(|known| known != &one) {
            return None;
        }
        argument = Some(one);
    }
    argument.filter(|_| !first.group_expr().has_grouping_set())
}
