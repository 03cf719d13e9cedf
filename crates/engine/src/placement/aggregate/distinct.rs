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
//! of their own, see `classes.rs`), and averages beside them must be of doubles. A filter replaces the values
//! that it rejects by NULL, which no such aggregate counts. The plan built here serves only to find its
//! pipelines: the CPU would run the original one.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::{AggregateUDF, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, IsNotNullExpr, Literal,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use crate::placement::nodes::first_step;
use crate::placement::plan_node::PlanNode;
use galatea_codegen::aggregate::AggregateFunction;

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
    let mut steps = Steps {
        input: first.input().schema(),
        inner: Vec::new(),
        outer: Vec::new(),
    };
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
    let results = parts.iter().map(|part| part.result(number, &schema));
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
    // A sum of sums of decimals has more digits than a sum.
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

/// Whether the call has DISTINCT, and its result depends on it.
fn is_distinct(call: &AggregateFunctionExpr) -> bool {
    let function = AggregateFunction::from_name(call.fun().name());
    call.is_distinct() && function.is_some_and(|function| !function.ignores_repeats())
}

/// Groups of the input by these keys.
pub(in crate::placement) fn grouped(
    keys: Vec<(Arc<dyn PhysicalExpr>, String)>,
    calls: Vec<Arc<AggregateFunctionExpr>>,
    filters: Vec<Option<Arc<dyn PhysicalExpr>>>,
    input: Arc<dyn ExecutionPlan>,
) -> Option<Arc<dyn ExecutionPlan>> {
    let (schema, keys) = (input.schema(), PhysicalGroupBy::new_single(keys));
    let aggregate = AggregateExec::try_new(AggregateMode::Single, keys, calls, filters, input, schema);
    Some(Arc::new(aggregate.ok()?))
}

/// A call of one argument over that input.
pub(in crate::placement) fn call_of(
    function: Arc<AggregateUDF>,
    argument: Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    name: String,
) -> Option<Arc<AggregateFunctionExpr>> {
    let call = AggregateExprBuilder::new(function, vec![argument])
        .schema(Arc::clone(schema))
        .alias(name);
    call.build().ok().map(Arc::new)
}

/// The columns of the second step that a result is computed from, by number of its aggregates.
enum Part {
    /// The aggregate itself.
    Value(usize),
    /// A sum of counts; the sum of no counts is zero.
    Count(usize),
    /// A sum over a count.
    Average(usize, usize),
}

impl Part {
    /// The result over the second step's columns; the first `keys` columns are the keys.
    fn result(&self, keys: usize, schema: &SchemaRef) -> Arc<dyn PhysicalExpr> {
        let column = |index: usize| -> Arc<dyn PhysicalExpr> {
            let name = schema.field(keys + index).name();
            Arc::new(Column::new(name, keys + index))
        };
        match self {
            Self::Value(value) => column(*value),
            Self::Count(count) => {
                let zero = Arc::new(Literal::new(ScalarValue::Int64(Some(0))));
                let some = Arc::new(IsNotNullExpr::new(column(*count)));
                let branch: (Arc<dyn PhysicalExpr>, _) = (some, column(*count));
                let case = CaseExpr::try_new(None, vec![branch], Some(zero));
                Arc::new(case.expect("a CASE with a branch"))
            }
            Self::Average(sum, count) => {
                let count = Arc::new(CastExpr::new(column(*count), DataType::Float64, None));
                Arc::new(BinaryExpr::new(column(*sum), Operator::Divide, count))
            }
        }
    }
}

/// An aggregate of the first step, and its filter.
type Inner = (Arc<AggregateFunctionExpr>, Option<Arc<dyn PhysicalExpr>>);

/// The aggregates of both steps.
struct Steps {
    /// Schema of the first step's input.
    input: SchemaRef,
    inner: Vec<Inner>,
    /// Each over an aggregate of the first step, by number, or over the distinct values.
    outer: Vec<(Arc<AggregateUDF>, Option<usize>)>,
}

impl Steps {
    /// The columns that compute a call; `None` if two steps cannot compute it.
    fn parts(
        &mut self,
        call: &Arc<AggregateFunctionExpr>,
        filter: Option<&Arc<dyn PhysicalExpr>>,
    ) -> Option<Part> {
        if !call.order_bys().is_empty() {
            return None;
        }
        if is_distinct(call) {
            return Some(Part::Value(self.outer(Arc::new(call.fun().clone()), None)));
        }
        let function = AggregateFunction::from_name(call.fun().name())?;
        Some(match function {
            AggregateFunction::Count => {
                let counts = self.inner(Arc::clone(call), filter);
                Part::Count(self.outer(sum_udaf(), Some(counts)))
            }
            AggregateFunction::Sum
            | AggregateFunction::SumWrapping
            | AggregateFunction::Min
            | AggregateFunction::Max
            | AggregateFunction::BitAnd
            | AggregateFunction::BitOr
            | AggregateFunction::BitXor => {
                let values = self.inner(Arc::clone(call), filter);
                Part::Value(self.outer(Arc::new(call.fun().clone()), Some(values)))
            }
            AggregateFunction::Moment(_) => return None,
            AggregateFunction::Avg => {
                let [argument] = call.expressions().try_into().ok()?;
                if argument.data_type(&self.input).ok()? != DataType::Float64 {
                    return None;
                }
                let mut step = |function: Arc<AggregateUDF>| {
                    let name = format!("part {}", self.inner.len());
                    let call = call_of(function, Arc::clone(&argument), &self.input, name)?;
                    let values = self.inner(call, filter);
                    Some(self.outer(sum_udaf(), Some(values)))
                };
                Part::Average(step(sum_udaf())?, step(count_udaf())?)
            }
        })
    }

    fn inner(&mut self, call: Arc<AggregateFunctionExpr>, filter: Option<&Arc<dyn PhysicalExpr>>) -> usize {
        self.inner.push((call, filter.cloned()));
        self.inner.len() - 1
    }

    fn outer(&mut self, function: Arc<AggregateUDF>, step: Option<usize>) -> usize {
        self.outer.push((function, step));
        self.outer.len() - 1
    }
}
