//! PERCENTILE_CONT interpolates between the two values next to a fraction of an order.
//!
//! ```text
//! values       1.0   2.5   2.75  8.0        4 values, fraction 0.4: position 1.2
//! position      0     1     2     3         2.5 + (2.75 - 2.5) * 0.2
//! ```
//!
//! The device returns the rows at the positions 1 and 2, and the CPU interpolates as DataFusion does, which
//! uses six digits of the distance.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CaseExpr, CastExpr, Literal};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::{Value, call_of, column, integer};

/// Factor of the distance between two values before DataFusion truncates it.
const PRECISION: f64 = 1e6;

/// The fraction of a call, for ascending values; `None` for 0 and 1, which are not between values.
pub(super) fn share(call: &AggregateFunctionExpr) -> Option<f64> {
    let arguments = call.expressions();
    let literal = arguments.get(1)?.downcast_ref::<Literal>()?;
    let ScalarValue::Float64(Some(share)) = literal.value() else {
        return None;
    };
    let descends = call.order_bys().first().is_some_and(|key| key.options.descending);
    let share = if descends { 1.0 - share } else { *share };
    (share > 0.0 && share < 1.0).then_some(share)
}

fn binary(left: Value, operator: Operator, right: Value) -> Value {
    Arc::new(BinaryExpr::new(left, operator, right))
}

fn double(value: f64) -> Value {
    Arc::new(Literal::new(ScalarValue::Float64(Some(value))))
}

fn cast(value: Value, data_type: DataType) -> Value {
    Arc::new(CastExpr::new(value, data_type, None))
}

/// The position among `count` values, counted from 0; below 0 if there are none.
fn place(count: Value, share: f64) -> Value {
    let last = binary(count, Operator::Minus, integer(1));
    binary(double(share), Operator::Multiply, cast(last, DataType::Float64))
}

/// Whether the row with that number, from 0 on, is next to the position.
pub(super) fn is_neighbour(number: Value, count: Value, share: f64) -> Value {
    let (number, place) = (cast(number, DataType::Float64), place(count, share));
    let behind = binary(Arc::clone(&place), Operator::Minus, double(1.0));
    let before = binary(place, Operator::Plus, double(1.0));
    let above = binary(Arc::clone(&number), Operator::Gt, behind);
    binary(above, Operator::And, binary(number, Operator::Lt, before))
}

/// The calls that find the values of a group: the lower one, the upper one and the number of values, from the
/// columns behind the keys.
pub(super) fn neighbours(keys: usize, schema: &SchemaRef) -> Option<Vec<Arc<AggregateFunctionExpr>>> {
    let call =
        |function, at: usize, name: &str| call_of(function, column(at, schema), schema, name.to_owned());
    Some(vec![
        call(min_udaf(), keys, "below")?,
        call(max_udaf(), keys, "above")?,
        call(max_udaf(), keys + 1, "count")?,
    ])
}

/// The result for groups with these values behind `keys` keys, repeated for each of the calls.
pub(super) fn interpolated(
    groups: &Arc<dyn ExecutionPlan>,
    keys: usize,
    share: f64,
    calls: usize,
) -> Option<Arc<dyn ExecutionPlan>> {
    let schema = groups.schema();
    let data_type = schema.field(keys).data_type();
    let [below, above] = [keys, keys + 1].map(|at| cast(column(at, &schema), DataType::Float64));
    let place = place(column(keys + 2, &schema), share);
    let whole = cast(cast(Arc::clone(&place), DataType::Int64), DataType::Float64);
    let rest = binary(place, Operator::Minus, whole);
    let digits = binary(Arc::clone(&rest), Operator::Multiply, double(PRECISION));
    let digits = cast(cast(digits, DataType::Int64), DataType::Float64);
    let weight = binary(digits, Operator::Divide, double(PRECISION));
    let distance = binary(above, Operator::Minus, Arc::clone(&below));
    let between = binary(
        Arc::clone(&below),
        Operator::Plus,
        binary(distance, Operator::Multiply, weight),
    );
    let is_value = binary(rest, Operator::Eq, double(0.0));
    let result = CaseExpr::try_new(None, vec![(is_value, below)], Some(between)).ok()?;
    let result: Value = match data_type {
        DataType::Float64 => Arc::new(result),
        other => cast(Arc::new(result), other.clone()),
    };
    let own =
        (0..keys).map(|key| ProjectionExpr::new(column(key, &schema), schema.field(key).name().clone()));
    let results =
        (0..calls).map(|call| ProjectionExpr::new(Arc::clone(&result), format!("percentile {call}")));
    let projection = ProjectionExec::try_new(own.chain(results).collect::<Vec<_>>(), Arc::clone(groups));
    Some(Arc::new(projection.ok()?))
}
