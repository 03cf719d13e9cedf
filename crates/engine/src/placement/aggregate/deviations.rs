//! Variance, covariance and regression of floats in two passes: the means, then sums of products
//! of the distances from them.
//!
//! ```text
//! SELECT k, var(x), sum(y) FROM t GROUP BY k
//!
//! t ── over each k: avg(x) as m
//!              │
//!      groups by k: count(x), min(x), max(x), sum((x - m) * (x - m)), sum(y)
//!              │
//!      k, sum((x - m) * (x - m)) / (count(x) - 1), sum(y)
//! ```
//!
//! The distances keep all digits in which values differ, however far the values are from zero, and sums of
//! products may be added in any order, unlike the running means that DataFusion updates row by row (Welford).
//! A mean is rounded to a double, and the error may be large beside the distances: the sums of the distances
//! themselves, zero for an exact mean, correct the sums of products, `- sum (x - m) sum (y - m) / n`. If all
//! values of a group are equal, the last bit of their mean may still differ; the result is that of equal
//! values nevertheless. Values with squares outside a double's range give an infinity or NaN, as in
//! DataFusion, though not always the same of the two.
//!
//! Correlations are left to the CPU: its sums of squares lose the digits that are kept here, so the results
//! would differ. Integers and decimals need only one pass ([`galatea_codegen::moments`]). Keys must not be
//! floats: zeros of both signs are one group, and may be two partitions of a window. The plan built here
//! serves only to find its pipelines: the CPU would run the original one.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::config::ConfigOptions;
use datafusion::functions::math::sqrt;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::{AggregateUDF, Operator, WindowFunctionDefinition};
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, IsNotNullExpr, Literal};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::windows::WindowAggExec;

use crate::placement::aggregate::classes::{Value, case_when, column, joinable, only_where, over_partitions};
use crate::placement::aggregate::steps::{call_of, grouped};
use crate::placement::nodes::first_step;
use crate::placement::plan_node::PlanNode;
use galatea_codegen::aggregate::{AggregateFunction, is_exact};
use galatea_codegen::moments::Moment;

/// An equivalent plan that computes distances from means; `None` if `plan` is not an aggregate with a call
/// that needs them.
pub(in crate::placement) fn from_means(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let PlanNode::Aggregate(aggregate) = PlanNode::of(plan) else {
        return None;
    };
    let first = first_step(aggregate).ok()?;
    let input = first.input();
    let mut needs_means = false;
    for call in first.aggr_expr() {
        let moment = moment_of(call);
        // DISTINCT would need two steps of its own, and is not supported here.
        if call.is_distinct() && moment.is_some() {
            return None;
        }
        let exact = |argument: &Value| is_widened(argument, &input.schema());
        let counts_alone = moment == Some(Moment::RegrCount);
        needs_means |= moment.is_some() && !counts_alone && !call.expressions().iter().all(exact);
    }
    let correlates = |call: &Arc<AggregateFunctionExpr>| moment_of(call) == Some(Moment::Corr);
    if !needs_means
        || first.aggr_expr().iter().any(correlates)
        || first.group_expr().has_grouping_set()
        || !joinable(first)
    {
        return None;
    }
    let calls = || first.aggr_expr().iter().zip(first.filter_expr());
    let mut means = Means::default();
    let moments = calls()
        .map(|(call, filter)| match moment_of(call) {
            None => Some(None),
            Some(moment) => means.arguments(moment, call, filter.as_ref()).map(Some),
        })
        .collect::<Option<Vec<_>>>()?;
    let above = means.over(first)?;
    let mut sums = Sums {
        width: input.schema().fields().len(),
        schema: above.schema(),
        keys: first.group_expr().expr().len(),
        values: &means.0,
        calls: Vec::new(),
        filters: Vec::new(),
    };
    let results = calls()
        .zip(&moments)
        .map(|((call, filter), moment)| match moment {
            None => Some(sums.call(Arc::clone(call), filter.clone())),
            Some(moment) => sums.moment(moment),
        })
        .collect::<Option<Vec<_>>>()?;
    let keys = first.group_expr().expr().to_vec();
    let number = keys.len();
    let groups = grouped(keys, sums.calls, sums.filters, above)?;
    let (schema, wanted) = (groups.schema(), plan.schema());
    let columns = (0..number)
        .map(|key| column(key, &schema))
        .chain(results)
        .zip(wanted.fields());
    let columns = columns.map(|(expr, field)| {
        let own = expr.data_type(&schema).ok()?;
        let expr = match own == *field.data_type() {
            true => expr,
            false => cast(expr, field.data_type().clone()),
        };
        Some(ProjectionExpr::new(expr, field.name().clone()))
    });
    let columns = columns.collect::<Option<Vec<_>>>()?;
    Some(Arc::new(ProjectionExec::try_new(columns, groups).ok()?))
}

fn moment_of(call: &AggregateFunctionExpr) -> Option<Moment> {
    match AggregateFunction::from_name(call.fun().name())? {
        AggregateFunction::Moment(moment) => Some(moment),
        _ => None,
    }
}

/// Whether an argument is an integer or a decimal that was cast to a double.
fn is_widened(argument: &Value, schema: &SchemaRef) -> bool {
    let input = argument
        .downcast_ref::<CastExpr>()
        .map_or(argument, CastExpr::expr);
    input
        .data_type(schema)
        .is_ok_and(|data_type| is_exact(&data_type))
}

/// A call, and its arguments by number.
struct Arguments {
    moment: Moment,
    of: [usize; 2],
}

/// Distinct values with means that are needed: doubles over the input, NULL in rows that do not count.
#[derive(Default)]
struct Means(Vec<Value>);

impl Means {
    /// The arguments of a call; a single argument is returned twice.
    fn arguments(
        &mut self,
        moment: Moment,
        call: &AggregateFunctionExpr,
        filter: Option<&Value>,
    ) -> Option<Arguments> {
        let arguments = call.expressions();
        let (one, other) = match arguments.as_slice() {
            [one] if moment.arguments() == 1 => (one, one),
            [one, other] if moment.arguments() == 2 => (one, other),
            _ => return None,
        };
        let mut number = |value: &Value, beside: &Value| -> Option<usize> {
            let mut value = cast(Arc::clone(value), DataType::Float64);
            if !Arc::ptr_eq(one, other) {
                let counts: Value = Arc::new(IsNotNullExpr::new(Arc::clone(beside)));
                value = only_where(Some(&counts), &value)?;
            }
            let value = only_where(filter, &value)?;
            let known = self.0.iter().position(|known| known == &value);
            Some(known.unwrap_or_else(|| {
                self.0.push(value);
                self.0.len() - 1
            }))
        };
        Some(Arguments {
            moment,
            of: [number(one, other)?, number(other, one)?],
        })
    }

    /// The input with the means of each group behind its columns.
    fn over(&self, first: &AggregateExec) -> Option<Arc<dyn ExecutionPlan>> {
        let partition: Vec<Value> = (first.group_expr().expr().iter())
            .map(|(key, _)| Arc::clone(key))
            .collect();
        let schema = first.input().schema();
        let mean = |(number, value): (usize, &Value)| {
            over_partitions(
                &WindowFunctionDefinition::AggregateUDF(avg_udaf()),
                format!("mean {number}"),
                &[Arc::clone(value)],
                &partition,
                &[],
                &schema,
            )
        };
        let means = self.0.iter().enumerate().map(mean).collect::<Option<Vec<_>>>()?;
        let above = WindowAggExec::try_new(means, Arc::clone(first.input()), false);
        Some(Arc::new(above.ok()?))
    }
}

/// The sums of each group, and the results computed from them.
struct Sums<'v> {
    /// Number of columns of the input, before the means.
    width: usize,
    /// Schema of the input with the means.
    schema: SchemaRef,
    keys: usize,
    values: &'v [Value],
    calls: Vec<Arc<AggregateFunctionExpr>>,
    filters: Vec<Option<Value>>,
}

impl Sums<'_> {
    /// The column of a call, which is added once.
    fn call(&mut self, call: Arc<AggregateFunctionExpr>, filter: Option<Value>) -> Value {
        self.calls.push(call);
        self.filters.push(filter);
        let number = self.calls.len() - 1;
        let name = self.calls[number].name();
        Arc::new(Column::new(name, self.keys + number))
    }

    /// The column of an aggregate of a computed value, which is added once.
    fn of(&mut self, function: Arc<AggregateUDF>, value: Value) -> Option<Value> {
        let name = format!("{}({value})", function.name());
        let known = self.calls.iter().position(|call| call.name() == name);
        if let Some(number) = known {
            return Some(Arc::new(Column::new(&name, self.keys + number)));
        }
        let call = call_of(function, value, &self.schema, name)?;
        Some(self.call(call, None))
    }

    fn distance(&self, value: usize) -> Value {
        let mean = column(self.width + value, &self.schema);
        binary(Arc::clone(&self.values[value]), Operator::Minus, mean)
    }

    /// The sum of the products of two values' distances from their means.
    fn central(&mut self, [one, other]: [usize; 2]) -> Option<Value> {
        let product = binary(self.distance(one), Operator::Multiply, self.distance(other));
        let sum = self.of(sum_udaf(), product)?;
        let count = self.of(count_udaf(), Arc::clone(&self.values[one]))?;
        let (left, right) = (
            self.of(sum_udaf(), self.distance(one))?,
            self.of(sum_udaf(), self.distance(other))?,
        );
        let product = binary(left, Operator::Multiply, right);
        let of_means = binary(product, Operator::Divide, cast(count, DataType::Float64));
        let mut sum = binary(sum, Operator::Minus, of_means);
        let both = [one, other];
        for &value in &both[usize::from(one == other)..] {
            let value = Arc::clone(&self.values[value]);
            let (least, greatest) = (
                self.of(min_udaf(), Arc::clone(&value))?,
                self.of(max_udaf(), value)?,
            );
            let range = binary(greatest, Operator::Minus, least);
            let equal = binary(range, Operator::Eq, double(0.0));
            sum = case_when(equal, double(0.0), Some(sum))?;
        }
        Some(sum)
    }

    /// The result of a call.
    fn moment(&mut self, call: &Arguments) -> Option<Value> {
        let [a, b] = call.of;
        let count = self.of(count_udaf(), Arc::clone(&self.values[a]))?;
        let n = cast(Arc::clone(&count), DataType::Float64);
        let before = binary(Arc::clone(&n), Operator::Minus, double(1.0));
        let several = binary(Arc::clone(&n), Operator::Gt, double(1.0));
        let divided = |sum: Value, by: &Value| binary(sum, Operator::Divide, Arc::clone(by));
        let if_several = |value: Value| case_when(Arc::clone(&several), value, None);
        let not_zero = |value: &Value| binary(Arc::clone(value), Operator::NotEq, double(0.0));
        let mean = |sums: &mut Self, value: usize| sums.of(avg_udaf(), Arc::clone(&sums.values[value]));
        Some(match call.moment {
            Moment::RegrCount => count,
            Moment::RegrAvgy => mean(self, a)?,
            Moment::RegrAvgx => mean(self, b)?,
            Moment::RegrSyy => self.central([a, a])?,
            Moment::RegrSxx => self.central([b, b])?,
            Moment::RegrSxy => self.central([a, b])?,
            Moment::VarPop => divided(self.central([a, a])?, &n),
            Moment::CovarPop => divided(self.central([a, b])?, &n),
            Moment::VarSamp => if_several(divided(self.central([a, a])?, &before))?,
            Moment::CovarSamp => if_several(divided(self.central([a, b])?, &before))?,
            Moment::StddevPop => root(divided(self.central([a, a])?, &n)),
            Moment::StddevSamp => {
                let variance = if_several(divided(self.central([a, a])?, &before))?;
                root(variance)
            }
            Moment::RegrSlope | Moment::RegrIntercept => {
                let (sxy, sxx) = (self.central([a, b])?, self.central([b, b])?);
                let has_slope = binary(several, Operator::And, not_zero(&sxx));
                let slope = divided(sxy, &sxx);
                let result = match call.moment {
                    Moment::RegrSlope => slope,
                    _ => {
                        let (y, x) = (mean(self, a)?, mean(self, b)?);
                        binary(y, Operator::Minus, binary(slope, Operator::Multiply, x))
                    }
                };
                case_when(has_slope, result, None)?
            }
            // The CPU's result would be the same only for integers.
            Moment::Corr => return None,
            Moment::RegrR2 => {
                let (aa, bb) = (self.central([a, a])?, self.central([b, b])?);
                let ab = self.central([a, b])?;
                let (varies, has_slope) = (not_zero(&aa), binary(several, Operator::And, not_zero(&bb)));
                let squares = binary(aa, Operator::Multiply, bb);
                let result = divided(binary(Arc::clone(&ab), Operator::Multiply, ab), &squares);
                // A line fits points of one height exactly.
                let result = case_when(varies, result, Some(double(1.0)))?;
                case_when(has_slope, result, None)?
            }
        })
    }
}

fn binary(left: Value, operator: Operator, right: Value) -> Value {
    Arc::new(BinaryExpr::new(left, operator, right))
}

fn double(value: f64) -> Value {
    Arc::new(Literal::new(ScalarValue::Float64(Some(value))))
}

fn root(value: Value) -> Value {
    let field = Arc::new(Field::new("sqrt", DataType::Float64, true));
    let options = Arc::new(ConfigOptions::default());
    Arc::new(ScalarFunctionExpr::new(
        "sqrt",
        sqrt(),
        vec![value],
        field,
        options,
    ))
}

fn cast(value: Value, data_type: DataType) -> Value {
    Arc::new(CastExpr::new(value, data_type, None))
}
