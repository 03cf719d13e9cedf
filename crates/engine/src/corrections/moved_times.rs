//! Sums of timestamps or dates and intervals that their unit cannot hold.
//!
//! DataFusion adds an interval in the unit of the timestamp or date, so that `ts + INTERVAL '500 ms'` was
//! `ts` for a timestamp of seconds, and `day + INTERVAL '1 hour'` was `day`. [`MovedTimes`] plans such a sum
//! as a timestamp of microseconds or nanoseconds, as in DuckDB. It is a part of the planner, because all
//! types above depend on the sum. [`finest_order`] does the same for the order of a window over a RANGE of
//! intervals.

use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, WindowFrameBound, WindowFrameUnits, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use galatea_expression::timestamp_units::per_second;

/// Nanoseconds of an interval beside its months and days; `None` if the interval is no constant.
fn time_of(interval: &ScalarValue) -> Option<i64> {
    let to = DataType::Interval(IntervalUnit::MonthDayNano);
    match interval.cast_to(&to).ok()? {
        ScalarValue::IntervalMonthDayNano(interval) => {
            Some(interval.map_or(0, |interval| interval.nanoseconds))
        }
        _ => None,
    }
}

/// The type of a timestamp or date of this type with an interval of these nanoseconds beside days and months,
/// if its own unit cannot hold the sum.
fn finer(data_type: &DataType, nanoseconds: i64) -> Option<DataType> {
    let (fits, zone) = match data_type {
        DataType::Date32 | DataType::Date64 => (nanoseconds == 0, None),
        DataType::Timestamp(unit, zone) => {
            let step = per_second(TimeUnit::Nanosecond) / per_second(*unit);
            (nanoseconds % step == 0, zone.clone())
        }
        _ => return None,
    };
    if fits {
        return None;
    }
    let unit = match nanoseconds % 1000 {
        0 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    };
    Some(DataType::Timestamp(unit, zone))
}

/// The planner of sums of a timestamp or date and a constant interval that its unit cannot hold.
#[derive(Debug)]
pub struct MovedTimes;

impl ExprPlanner for MovedTimes {
    fn plan_binary_op(
        &self,
        mut binary: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let interval = |expr: &Expr| match expr {
            Expr::Literal(value, _) if matches!(value.data_type(), DataType::Interval(_)) => time_of(value),
            _ => None,
        };
        let (time, nanoseconds) = match (&binary.op, interval(&binary.left), interval(&binary.right)) {
            (BinaryOperator::Plus | BinaryOperator::Minus, None, Some(right)) => (&mut binary.left, right),
            (BinaryOperator::Plus, Some(left), None) => (&mut binary.right, left),
            _ => return Ok(PlannerResult::Original(binary)),
        };
        if let Some(finer) = finer(&time.get_type(schema)?, nanoseconds) {
            *time = cast(std::mem::take(time), finer);
        }
        Ok(PlannerResult::Original(binary))
    }
}

/// The key of the order of windows in one node, and the finest type that their RANGE of intervals needs;
/// `None` if the unit of the key suffices.
pub(super) fn finest_order(windows: &[Expr], schema: &DFSchema) -> Option<(Expr, DataType)> {
    let needed = windows.iter().filter_map(|window| {
        let Expr::WindowFunction(window) = window.clone().unalias() else {
            return None;
        };
        let frame = &window.params.window_frame;
        let [order] = window.params.order_by.as_slice() else {
            return None;
        };
        if frame.units != WindowFrameUnits::Range {
            return None;
        }
        let data_type = order.expr.get_type(schema).ok()?;
        let of_bound = |bound: &WindowFrameBound| match bound {
            WindowFrameBound::Preceding(value) | WindowFrameBound::Following(value) if !value.is_null() => {
                finer(&data_type, time_of(value)?)
            }
            _ => None,
        };
        let bounds = [of_bound(&frame.start_bound), of_bound(&frame.end_bound)];
        let finest = bounds.into_iter().flatten().max_by_key(is_nanoseconds)?;
        Some((order.expr.clone(), finest))
    });
    needed.max_by_key(|(_, finest)| is_nanoseconds(finest))
}

fn is_nanoseconds(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(TimeUnit::Nanosecond, _))
}

/// The window, ordered by a finer type if it has this order.
pub(super) fn in_window(window: &WindowFunction, (key, finer): &(Expr, DataType)) -> Transformed<Expr> {
    let mut window = window.clone();
    let keys = window.params.order_by.iter_mut();
    let of_key: Vec<_> = keys.filter(|order| order.expr == *key).collect();
    let is_changed = !of_key.is_empty();
    for order in of_key {
        order.expr = cast(order.expr.clone(), finer.clone());
    }
    let window = Expr::WindowFunction(Box::new(window));
    Transformed::new_transformed(window, is_changed)
}
