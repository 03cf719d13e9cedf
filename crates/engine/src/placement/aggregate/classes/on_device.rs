//! Classes that pipelines compute to the end: their join is one plan for the device.
//!
//! ```text
//! SELECT k, stddev(x), median(y) FROM t GROUP BY k
//!
//! t ── groups by k: stddev(x) ────────────────────────────────────────────────────────────────────┐
//! t ── numbered by y in each k ── the middle rows ── groups by k: min(y), max(y), count(y) ── .. ──┴── joined by k
//! ```
//!
//! The median is the value in the middle, or half of the sum of both values there, as in DataFusion. A first
//! value is a column of the first row.

use super::{Class, Finish, Rows, Value, case_when, classes, column, integer, join_by_keys, only_where};
use crate::placement::aggregate::steps::{call_of, grouped};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Literal};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use std::sync::Arc;

/// Maximum number of digits of decimals with a median on the device: sums and quotients have four more.
const MOST_DIGITS: u8 = 34;

/// The join of the classes of an aggregate, computed by plans of pipelines only; `None` if one pipeline
/// computes the aggregate, or the CPU has to complete a class.
pub(in crate::placement) fn as_join(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let classes = classes(plan)?;
    let results = classes.iter().map(result).collect::<Option<Vec<_>>>()?;
    let joined = join_by_keys(plan, &classes, results)?;
    let (own, wanted) = (joined.schema(), plan.schema());
    let mut types = own.fields().iter().zip(wanted.fields());
    types
        .all(|(own, wanted)| own.data_type() == wanted.data_type())
        .then_some(joined)
}

/// The keys and results of a class.
fn result(class: &Class) -> Option<Arc<dyn ExecutionPlan>> {
    match (class.needed, &class.finish) {
        (Rows::All | Rows::Distinct, None) => Some(Arc::clone(&class.rows)),
        (Rows::Share(_), Some(_)) => class.over(Arc::clone(&class.rows)),
        (Rows::Middle, Some(finish)) => medians(class, finish),
        // Without keys, an aggregate of no rows is a row.
        (Rows::First | Rows::Last, Some(finish)) if !finish.keys.is_empty() => values(class, finish),
        _ => None,
    }
}

/// The values of the only row of each group.
fn values(class: &Class, finish: &Finish) -> Option<Arc<dyn ExecutionPlan>> {
    let keys = finish.keys.iter();
    let keys = keys.map(|(key, name)| Some(ProjectionExpr::new(Arc::clone(key), name.clone())));
    let values = finish.calls.iter().zip(&finish.filters).map(|(call, filter)| {
        let arguments = call.expressions();
        let value = only_where(filter.as_ref(), arguments.first()?)?;
        Some(ProjectionExpr::new(value, call.name().to_owned()))
    });
    let outputs = keys.chain(values).collect::<Option<Vec<_>>>()?;
    Some(Arc::new(
        ProjectionExec::try_new(outputs, Arc::clone(&class.rows)).ok()?,
    ))
}

/// The medians of the rows in the middle of each group.
fn medians(class: &Class, finish: &Finish) -> Option<Arc<dyn ExecutionPlan>> {
    let value = class.value.as_ref()?;
    let schema = class.rows.schema();
    let data_type = value.data_type(&schema).ok()?;
    let calls = [
        (min_udaf(), "least"),
        (max_udaf(), "greatest"),
        (count_udaf(), "values"),
    ]
    .map(|(function, name)| call_of(function, Arc::clone(value), &schema, name.to_owned()));
    let calls = calls.into_iter().collect::<Option<Vec<_>>>()?;
    let groups = grouped(finish.keys.clone(), calls, vec![None; 3], Arc::clone(&class.rows))?;
    let schema = groups.schema();
    let keys = finish.keys.len();
    let [least, greatest, values] = [0, 1, 2].map(|call| column(keys + call, &schema));
    let half = half_of_sum(Arc::clone(&least), greatest, &data_type)?;
    let is_one = binary(values, Operator::Eq, integer(1));
    let median = case_when(is_one, least, Some(half))?;
    let own =
        (0..keys).map(|key| ProjectionExpr::new(column(key, &schema), schema.field(key).name().clone()));
    let medians = finish
        .calls
        .iter()
        .map(|call| ProjectionExpr::new(Arc::clone(&median), call.name().to_owned()));
    let outputs: Vec<ProjectionExpr> = own.chain(medians).collect();
    Some(Arc::new(ProjectionExec::try_new(outputs, groups).ok()?))
}

/// Half of the sum of two values. Half of an odd decimal is truncated: the sum without its rest is even, so
/// that its half has the scale of the values.
fn half_of_sum(one: Value, other: Value, data_type: &DataType) -> Option<Value> {
    let sum = binary(one, Operator::Plus, other);
    let two = match data_type {
        DataType::Float64 => ScalarValue::Float64(Some(2.0)),
        DataType::Float32 => ScalarValue::Float32(Some(2.0)),
        DataType::Decimal128(digits, scale) if *digits <= MOST_DIGITS && *scale >= 0 => {
            let smallest = literal(ScalarValue::Decimal128(Some(2), *digits, *scale));
            let rest = binary(Arc::clone(&sum), Operator::Modulo, smallest);
            let even = binary(sum, Operator::Minus, rest);
            let two = literal(ScalarValue::Decimal128(Some(2), 1, 0));
            let half = binary(even, Operator::Divide, two);
            return Some(Arc::new(CastExpr::new(half, data_type.clone(), None)));
        }
        _ => return None,
    };
    Some(binary(sum, Operator::Divide, literal(two)))
}

fn binary(left: Value, operator: Operator, right: Value) -> Value {
    Arc::new(BinaryExpr::new(left, operator, right))
}

fn literal(value: ScalarValue) -> Value {
    Arc::new(Literal::new(value))
}
