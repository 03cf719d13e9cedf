//! Aggregates with calls that no single pipeline computes. Calls that can be computed together form a class
//! with a plan of its own, and the classes are joined by the keys.
//!
//! ```text
//! SELECT k, sum(y), median(x), approx_distinct(z) FROM t GROUP BY k
//!
//! t ── groups by k: sum(y) ──────────────────────────────────────────────────────────────────┐
//! t ── numbered by x in each k ── the middle rows ── CPU: groups by k: median(x) ────────────┼── joined by k
//! t ── groups by k, z ── CPU: groups by k: approx_distinct(z) ───────────────────────────────┘
//! ```
//!
//! The result of some functions depends on few rows of a group: a median on the one or two in the middle, a
//! first value on the first. The device finds these rows, and DataFusion's own function over them returns the
//! result, bit by bit. The same holds for distinct values, if repetitions do not matter. Each class reads the
//! input, so the input must return the same rows every time.

mod in_order;
pub(in crate::placement) mod on_device;
mod percentile;

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{NullEquality, ScalarValue};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::{
    JoinType, Operator, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, IsNotNullExpr, Literal,
};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::windows::{WindowAggExec, WindowExpr, create_window_expr};

use crate::graph::gives_same_rows;
use crate::placement::aggregate::steps::{call_of, grouped};
use crate::placement::nodes::{first_step, statistics};
use crate::placement::plan_node::PlanNode;
use galatea_codegen::aggregate::AggregateFunction;

pub(in crate::placement) type Value = Arc<dyn PhysicalExpr>;

/// The rows of a group that a class needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// All rows, which a pipeline aggregates.
    All,
    /// The distinct values, which a pipeline aggregates.
    Distinct,
    /// The distinct values, which the CPU aggregates.
    Different,
    /// The ones in the middle of an order.
    Middle,
    /// The ones next to a fraction of an order; the bits of a double.
    Share(u64),
    /// The first of an order.
    First,
    /// The last of an order.
    Last,
    /// The first n rows of an order.
    Head(u32),
    /// The last n rows of an order.
    Tail(u32),
    /// All rows, in an order.
    InOrder,
}

/// The rows that a call needs, and the values or the order that select them.
#[derive(Debug)]
struct Need {
    rows: Rows,
    by: Vec<PhysicalSortExpr>,
}

impl PartialEq for Need {
    fn eq(&self, other: &Self) -> bool {
        let same = |(own, others): (&PhysicalSortExpr, &PhysicalSortExpr)| {
            *own.expr == *others.expr && own.options == others.options
        };
        self.rows == other.rows && self.by.len() == other.by.len() && self.by.iter().zip(&other.by).all(same)
    }
}

/// Calls of an aggregate that are computed together.
pub(in crate::placement) struct Class {
    /// The rows that a pipeline computes: the groups, or the rows that the CPU aggregates.
    pub(in crate::placement) rows: Arc<dyn ExecutionPlan>,
    /// The CPU's aggregate over these rows, if they are not the groups.
    finish: Option<Finish>,
    /// The fraction of an order at which its result is interpolated.
    share: Option<f64>,
    /// The numbers of the calls.
    calls: Vec<usize>,
    /// The rows of a group that it needs.
    needed: Rows,
    /// The value that selects these rows, if one does.
    value: Option<Value>,
}

struct Finish {
    keys: Vec<(Value, String)>,
    calls: Vec<Arc<AggregateFunctionExpr>>,
    filters: Vec<Option<Value>>,
}

impl Class {
    /// The keys and the results of the class; `placed` computes its rows.
    pub(in crate::placement) fn over(
        &self,
        placed: Arc<dyn ExecutionPlan>,
    ) -> Option<Arc<dyn ExecutionPlan>> {
        let Some(Finish { keys, calls, filters }) = &self.finish else {
            return Some(placed);
        };
        let made = grouped(keys.clone(), calls.clone(), filters.clone(), placed)?;
        match self.share {
            None => Some(made),
            Some(share) => percentile::interpolated(&made, keys.len(), share, self.calls.len()),
        }
    }
}

/// The classes of an aggregate's calls; `None` if one pipeline computes all of them, or a call needs rows
/// that no pipeline finds.
pub(in crate::placement) fn classes(plan: &Arc<dyn ExecutionPlan>) -> Option<Vec<Class>> {
    let PlanNode::Aggregate(aggregate) = PlanNode::of(plan) else {
        return None;
    };
    let first = first_step(aggregate).ok()?;
    if first.group_expr().has_grouping_set() {
        return None;
    }
    let mut needs: Vec<(Need, Vec<usize>)> = Vec::new();
    let calls = first.aggr_expr().iter().zip(first.filter_expr()).enumerate();
    for (number, (call, filter)) in calls {
        let need = need(first, call, filter.as_ref())?;
        match needs.iter_mut().find(|(known, _)| *known == need) {
            Some((_, numbers)) => numbers.push(number),
            None => needs.push((need, vec![number])),
        }
    }
    let of_pipelines = |(need, _): &(Need, Vec<usize>)| matches!(need.rows, Rows::All | Rows::Distinct);
    let distinct = needs.iter().filter(|(need, _)| need.rows == Rows::Distinct);
    if needs.iter().all(of_pipelines) && distinct.count() < 2 {
        return None;
    }
    if needs.len() > 1 && !(gives_same_rows(first.input()) && joinable(first)) {
        return None;
    }
    (needs.into_iter())
        .map(|(need, calls)| class(first, &need, calls))
        .collect()
}

/// Whether groups of several plans can be joined by their keys. Keys of floats cannot: grouping treats some
/// floats as equal that a join distinguishes.
pub(in crate::placement) fn joinable(first: &AggregateExec) -> bool {
    let schema = first.input().schema();
    let mut keys = first.group_expr().expr().iter();
    keys.all(|(key, _)| {
        key.data_type(&schema)
            .is_ok_and(|data_type| !data_type.is_floating() && !data_type.is_nested())
    })
}

/// The rows that a call needs; `None` if no pipeline can compute them.
fn need(first: &AggregateExec, call: &AggregateFunctionExpr, filter: Option<&Value>) -> Option<Need> {
    let name = call.fun().name();
    let known = AggregateFunction::from_name(name);
    let all = Need {
        rows: Rows::All,
        by: Vec::new(),
    };
    let arguments = call.expressions();
    let argument = arguments.first();
    let by_value = |rows: Rows| {
        let value = only_where(filter, argument?)?;
        let by = vec![ascending(value)];
        Some(Need { rows, by })
    };
    match (name, call.is_distinct()) {
        ("array_agg" | "string_agg", is_distinct) => in_order::need(first, call, filter, is_distinct),
        ("nth_value", false) => in_order::nth(call, filter),
        ("median", false) => by_value(Rows::Middle),
        ("percentile_cont", false) => by_value(Rows::Share(percentile::share(call)?.to_bits())),
        ("approx_distinct", _) if arguments.len() == 1 => by_value(Rows::Different),
        ("first_value" | "last_value" | "any_value", false) => {
            let order = call.order_bys();
            // The first of all rows is available before any are sorted.
            if order.is_empty() && first.group_expr().is_empty() {
                return None;
            }
            let not_null: Option<Value> = match call.ignore_nulls() || name == "any_value" {
                true => Some(Arc::new(IsNotNullExpr::new(Arc::clone(argument?)))),
                false => None,
            };
            let counts = match (filter.cloned(), not_null) {
                (Some(filter), Some(not_null)) => {
                    Some(Arc::new(BinaryExpr::new(filter, Operator::And, not_null)) as Value)
                }
                (one, other) => one.or(other),
            };
            let is_last = name == "last_value";
            // Rows that do not count are sorted behind the others, or before them for LAST_VALUE.
            let place = |counts: &Value| -> Option<PhysicalSortExpr> {
                let (yes, no) = if is_last { (1, 0) } else { (0, 1) };
                let case = case_when(Arc::clone(counts), integer(yes), Some(integer(no)));
                Some(ascending(case?))
            };
            let mut by: Vec<PhysicalSortExpr> = match &counts {
                Some(counts) => vec![place(counts)?],
                None => Vec::new(),
            };
            by.extend_from_slice(order);
            let rows = if is_last { Rows::Last } else { Rows::First };
            Some(Need { rows, by })
        }
        (_, true) if known.is_some_and(|function| !function.ignores_repeats()) => match arguments.len() {
            1 => by_value(Rows::Distinct),
            _ => None,
        },
        _ => known.map(|_| all),
    }
}

fn class(first: &AggregateExec, need: &Need, calls: Vec<usize>) -> Option<Class> {
    let keys = first.group_expr().expr().to_vec();
    let of_class = |number: &usize| Arc::clone(&first.aggr_expr()[*number]);
    let own: Vec<_> = calls.iter().map(of_class).collect();
    let filters: Vec<_> = calls
        .iter()
        .map(|number| first.filter_expr()[*number].clone())
        .collect();
    let input = Arc::clone(first.input());
    let finish = |keys, calls, filters| Some(Finish { keys, calls, filters });
    let (rows, finish) = match need.rows {
        Rows::All | Rows::Distinct => (grouped(keys, own, filters, input)?, None),
        Rows::Different => {
            let mut groups = keys;
            let number = groups.len();
            groups.push((Arc::clone(&need.by.first()?.expr), "value".to_owned()));
            let rows = grouped(groups, Vec::new(), Vec::new(), input)?;
            let schema = rows.schema();
            let call = |call: &Arc<AggregateFunctionExpr>| in_order::over_column(call, number, &schema);
            let own = own.iter().map(call).collect::<Option<Vec<_>>>()?;
            let keys = (0..number).map(|key| (column(key, &schema), schema.field(key).name().clone()));
            let filters = vec![None; own.len()];
            (Arc::clone(&rows), finish(keys.collect(), own, filters))
        }
        Rows::Share(_) => {
            let rows = numbered_rows(first, need)?;
            let schema = rows.schema();
            let number = keys.len();
            let keys = (0..number).map(|key| (column(key, &schema), schema.field(key).name().clone()));
            let calls = percentile::neighbours(number, &schema)?;
            let filters = vec![None; calls.len()];
            (rows, finish(keys.collect(), calls, filters))
        }
        Rows::InOrder => (in_order::rows(first, &need.by)?, finish(keys, own, filters)),
        _ => (numbered_rows(first, need)?, finish(keys, own, filters)),
    };
    let share = match need.rows {
        Rows::Share(bits) => Some(f64::from_bits(bits)),
        _ => None,
    };
    Some(Class {
        rows,
        finish,
        share,
        calls,
        needed: need.rows,
        value: need.by.first().map(|by| Arc::clone(&by.expr)),
    })
}

/// The expected share of rows in the middle of their groups, in percent and at least 1, from the expected
/// number of groups.
fn middle_percentage(first: &AggregateExec) -> Option<u8> {
    let number = |plan: &Arc<dyn ExecutionPlan>| {
        let rows = statistics(plan)?.num_rows;
        rows.get_value().map(|rows| *rows as f64)
    };
    let groups: Arc<dyn ExecutionPlan> = Arc::new(first.clone());
    // Both middle rows of a group with an even number.
    let share = 2.0 * number(&groups)? / number(first.input())?.max(1.0);
    Some((100.0 * share).ceil().clamp(1.0, 100.0) as u8)
}

/// The rows that a class needs of each group, numbered in its order. For a fraction of an order they contain
/// the keys, the value and the number of values.
fn numbered_rows(first: &AggregateExec, need: &Need) -> Option<Arc<dyn ExecutionPlan>> {
    let input = first.input();
    let schema = input.schema();
    let width = schema.fields().len();
    let partition: Vec<Value> = (first.group_expr().expr().iter())
        .map(|(key, _)| Arc::clone(key))
        .collect();
    let function = |function: WindowFunctionDefinition, name: &str, arguments: &[Value]| {
        over_partitions(
            &function,
            name.to_owned(),
            arguments,
            &partition,
            &need.by,
            &schema,
        )
    };
    let counted = match need.rows {
        Rows::Middle | Rows::Share(_) => Arc::clone(&need.by.first()?.expr),
        _ => integer(1),
    };
    let functions = vec![
        function(
            WindowFunctionDefinition::WindowUDF(row_number_udwf()),
            "number",
            &[],
        )?,
        function(
            WindowFunctionDefinition::AggregateUDF(count_udaf()),
            "count",
            &[counted],
        )?,
    ];
    let numbered: Arc<dyn ExecutionPlan> =
        Arc::new(WindowAggExec::try_new(functions, Arc::clone(input), false).ok()?);
    let columns = numbered.schema();
    let binary = |left: Value, operator: Operator, right: Value| -> Value {
        Arc::new(BinaryExpr::new(left, operator, right))
    };
    let number: Value = Arc::new(CastExpr::new(column(width, &columns), DataType::Int64, None));
    let count = column(width + 1, &columns);
    let wanted = match need.rows {
        Rows::Last => binary(number, Operator::Eq, Arc::clone(&count)),
        Rows::Head(rows) => binary(number, Operator::LtEq, integer(rows.into())),
        Rows::Tail(rows) => {
            let behind = binary(number, Operator::Plus, integer(rows.into()));
            binary(behind, Operator::Gt, Arc::clone(&count))
        }
        // The middle value of an odd number, both of an even number, and the first row if there are no
        // values.
        Rows::Middle => {
            let twice = binary(number, Operator::Multiply, integer(2));
            let above = binary(Arc::clone(&twice), Operator::GtEq, Arc::clone(&count));
            let behind = binary(Arc::clone(&count), Operator::Plus, integer(2));
            binary(above, Operator::And, binary(twice, Operator::LtEq, behind))
        }
        Rows::Share(bits) => {
            let from_zero = binary(number, Operator::Minus, integer(1));
            percentile::is_neighbour(from_zero, Arc::clone(&count), f64::from_bits(bits))
        }
        _ => binary(number, Operator::Eq, integer(1)),
    };
    let kept = match need.rows {
        Rows::Middle | Rows::Share(_) => {
            // DataFusion's analysis of intervals finds no limits in the condition and expects all rows. It
            // does not analyse this comparison.
            let is_wanted = binary(
                wanted,
                Operator::IsNotDistinctFrom,
                Arc::new(Literal::new(true.into())),
            );
            let kept = FilterExec::try_new(is_wanted, numbered).ok()?;
            match middle_percentage(first) {
                Some(percentage) => kept.with_default_selectivity(percentage).ok()?,
                None => kept,
            }
        }
        _ => FilterExec::try_new(wanted, numbered).ok()?,
    };
    let kept: Arc<dyn ExecutionPlan> = Arc::new(kept);
    let outputs: Vec<ProjectionExpr> = match need.rows {
        Rows::Share(_) => {
            let keys = first.group_expr().expr().iter();
            let keys = keys.map(|(key, name)| ProjectionExpr::new(Arc::clone(key), name.clone()));
            let value = Arc::clone(&need.by.first()?.expr);
            let others = [(value, "value"), (count, "count")];
            let others = others.map(|(expr, name)| ProjectionExpr::new(expr, name.to_owned()));
            keys.chain(others).collect()
        }
        _ => {
            let own = |index: usize| {
                ProjectionExpr::new(column(index, &schema), schema.field(index).name().clone())
            };
            (0..width).map(own).collect()
        }
    };
    Some(Arc::new(ProjectionExec::try_new(outputs, kept).ok()?))
}

/// The results of all classes, joined by the keys of `plan`; `None` if their types differ from those that
/// DataFusion plans.
pub(in crate::placement) fn joined(
    plan: &Arc<dyn ExecutionPlan>,
    classes: &[Class],
    made: Vec<Arc<dyn ExecutionPlan>>,
) -> Option<Arc<dyn ExecutionPlan>> {
    join_by_keys(plan, classes, made).filter(|joined| joined.schema() == plan.schema())
}

fn join_by_keys(
    plan: &Arc<dyn ExecutionPlan>,
    classes: &[Class],
    made: Vec<Arc<dyn ExecutionPlan>>,
) -> Option<Arc<dyn ExecutionPlan>> {
    let output = plan.schema();
    let calls: usize = classes.iter().map(|class| class.calls.len()).sum();
    let keys = output.fields().len().checked_sub(calls)?;
    let mut places = vec![0; calls];
    let mut all: Option<Arc<dyn ExecutionPlan>> = None;
    for (class, made) in classes.iter().zip(made) {
        let before = all.as_ref().map_or(0, |all| all.schema().fields().len());
        for (at, call) in class.calls.iter().enumerate() {
            places[*call] = before + keys + at;
        }
        all = Some(match all {
            None => made,
            Some(all) if keys == 0 => Arc::new(CrossJoinExec::new(all, made)),
            Some(all) => {
                let (left, right) = (all.schema(), made.schema());
                let on = (0..keys).map(|key| (column(key, &left), column(key, &right)));
                let join = HashJoinExec::try_new(
                    all,
                    made,
                    on.collect(),
                    None,
                    &JoinType::Inner,
                    None,
                    PartitionMode::CollectLeft,
                    NullEquality::NullEqualsNull,
                    false,
                );
                Arc::new(join.ok()?)
            }
        });
    }
    let all = all?;
    let schema = all.schema();
    let columns = (0..keys).chain(places).zip(output.fields());
    let columns =
        columns.map(|(index, field)| ProjectionExpr::new(column(index, &schema), field.name().clone()));
    let projection = ProjectionExec::try_new(columns.collect::<Vec<_>>(), all).ok()?;
    Some(Arc::new(projection))
}

pub(in crate::placement) fn column(index: usize, schema: &SchemaRef) -> Value {
    Arc::new(Column::new(schema.field(index).name(), index))
}

fn integer(value: i64) -> Value {
    Arc::new(Literal::new(ScalarValue::Int64(Some(value))))
}

/// Ascending, with NULL last.
fn ascending(expr: Value) -> PhysicalSortExpr {
    PhysicalSortExpr {
        expr,
        options: SortOptions {
            descending: false,
            nulls_first: false,
        },
    }
}

/// The value, or NULL if the filter is not true.
pub(in crate::placement) fn only_where(filter: Option<&Value>, value: &Value) -> Option<Value> {
    Some(match filter {
        None => Arc::clone(value),
        Some(filter) => case_when(Arc::clone(filter), Arc::clone(value), None)?,
    })
}

/// `CASE WHEN condition THEN value ELSE otherwise END`.
pub(in crate::placement) fn case_when(
    condition: Value,
    value: Value,
    otherwise: Option<Value>,
) -> Option<Value> {
    let case = CaseExpr::try_new(None, vec![(condition, value)], otherwise);
    Some(Arc::new(case.ok()?))
}

/// A window function over all rows of each partition, in an order.
pub(in crate::placement) fn over_partitions(
    function: &WindowFunctionDefinition,
    name: String,
    arguments: &[Value],
    partition: &[Value],
    order: &[PhysicalSortExpr],
    schema: &SchemaRef,
) -> Option<Arc<dyn WindowExpr>> {
    let whole = WindowFrame::new_bounds(
        WindowFrameUnits::Rows,
        WindowFrameBound::Preceding(ScalarValue::UInt64(None)),
        WindowFrameBound::Following(ScalarValue::UInt64(None)),
    );
    let (whole, schema) = (Arc::new(whole), Arc::clone(schema));
    create_window_expr(
        function, name, arguments, partition, order, whole, schema, false, false, None,
    )
    .ok()
}
