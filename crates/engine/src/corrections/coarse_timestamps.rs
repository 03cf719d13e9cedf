//! Timestamps of coarse units, and dates, beside constants of finer units.
//!
//! A file with whole seconds has timestamps of seconds. DataFusion converts the constant that they are
//! compared with to their unit, so that `ts = '10:00:00.5'` was true for 10:00:00, and it adds intervals in
//! their unit, so that `ts + INTERVAL '500 ms'` was `ts`, and `day + INTERVAL '1 hour'` was `day`.
//!
//! The rule runs before type coercion. A constant between two values of the unit is rounded down, and the
//! comparison adapted: `ts < '10:00:00.5'` is `ts <= '10:00:00'`. A timestamp or date with an interval that
//! its unit cannot hold becomes a timestamp of microseconds or nanoseconds, as in DuckDB.

use crate::checks::names_kept;
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{Between, Case, InList, Sort, WindowFunction};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, WindowFrameBound, WindowFrameUnits, cast, lit,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use std::sync::Arc;

/// The rule; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct CoarseTimestamps;

impl AnalyzerRule for CoarseTimestamps {
    fn name(&self) -> &'static str {
        "galatea_coarse_timestamps"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(in_node)?.data)
    }
}

fn in_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&node.inputs());
    if let LogicalPlan::TableScan(scan) = &node {
        schema.merge(&scan.projected_schema);
    }
    let node = names_kept(node, |expr| expr.transform_up(|part| Ok(in_part(part, &schema))))?;
    match node.transformed {
        true => node.map_data(LogicalPlan::recompute_schema),
        false => Ok(node),
    }
}

fn in_part(part: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let changed = match &part {
        Expr::BinaryExpr(binary) => compared(binary, schema).or_else(|| moved(binary, schema)),
        Expr::Between(between) => in_between(between, schema),
        Expr::InList(list) => in_list(list, schema),
        Expr::Case(case) => in_case(case, schema),
        Expr::WindowFunction(window) => in_window(window, schema),
        _ => None,
    };
    match changed {
        Some(changed) => Transformed::yes(changed),
        None => Transformed::no(part),
    }
}

/// Nanoseconds of a unit.
fn nanoseconds(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// The unit and time zone of an expression, if it is a timestamp of a unit above nanoseconds and no constant.
fn coarse(expr: &Expr, schema: &DFSchema) -> Option<(TimeUnit, Option<Arc<str>>)> {
    match expr.get_type(schema).ok()? {
        DataType::Timestamp(unit, zone) if unit != TimeUnit::Nanosecond && constant(expr).is_none() => {
            Some((unit, zone))
        }
        _ => None,
    }
}

/// The value of a constant expression.
fn constant(expr: &Expr) -> Option<ScalarValue> {
    if let Expr::Literal(value, _) = expr {
        return Some(value.clone());
    }
    let varies = expr.exists(|part| {
        Ok(match part {
            Expr::ScalarFunction(call) => {
                call.func.signature().volatility != datafusion::logical_expr::Volatility::Immutable
            }
            Expr::Cast(_) | Expr::TryCast(_) | Expr::BinaryExpr(_) | Expr::Negative(_) => false,
            Expr::Literal(..) | Expr::Alias(_) => false,
            _ => true,
        })
    });
    if varies.unwrap_or(true) {
        return None;
    }
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().build());
    let coerced = simplifier.coerce(expr.clone(), &DFSchema::empty()).ok()?;
    match simplifier.simplify(coerced).ok()? {
        Expr::Literal(value, _) => Some(value),
        _ => None,
    }
}

/// The constant beside a timestamp of this unit and zone, rounded down to the unit; `None` if it is exact or
/// no point in time.
fn rounded(expr: &Expr, unit: TimeUnit, zone: Option<&Arc<str>>) -> Option<Expr> {
    let value = constant(expr)?;
    let value = match value.data_type() {
        DataType::Timestamp(..) => value,
        text if text.is_string() => {
            let of = |unit| value.cast_to(&DataType::Timestamp(unit, zone.cloned())).ok();
            of(TimeUnit::Nanosecond).or_else(|| of(TimeUnit::Microsecond))?
        }
        _ => return None,
    };
    let down = |value: i64, of: TimeUnit| {
        let step = i64::try_from(nanoseconds(unit) / nanoseconds(of)).ok()?;
        (step > 1 && value.rem_euclid(step) != 0).then(|| value.checked_sub(value.rem_euclid(step)))?
    };
    let rounded = match value {
        ScalarValue::TimestampNanosecond(Some(value), zone) => {
            ScalarValue::TimestampNanosecond(Some(down(value, TimeUnit::Nanosecond)?), zone)
        }
        ScalarValue::TimestampMicrosecond(Some(value), zone) => {
            ScalarValue::TimestampMicrosecond(Some(down(value, TimeUnit::Microsecond)?), zone)
        }
        ScalarValue::TimestampMillisecond(Some(value), zone) => {
            ScalarValue::TimestampMillisecond(Some(down(value, TimeUnit::Millisecond)?), zone)
        }
        _ => return None,
    };
    Some(Expr::Literal(rounded, None))
}

/// A condition that is `value`, or NULL if `expr` is.
fn unless_null(expr: &Expr, value: bool) -> Expr {
    let null = || Expr::Literal(ScalarValue::Boolean(None), None);
    match value {
        true => expr.clone().is_not_null().or(null()),
        false => expr.clone().is_null().and(null()),
    }
}

/// A comparison with a constant between two values of the unit.
fn compared(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let BinaryExpr { left, op, right } = binary;
    if !matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    ) {
        return None;
    }
    let (time, op, other) = match (coarse(left, schema), coarse(right, schema)) {
        (Some(_), None) => (left, *op, right),
        (None, Some(_)) => (right, op.swap().unwrap_or(*op), left),
        _ => return None,
    };
    let (unit, zone) = coarse(time, schema)?;
    let below = rounded(other, unit, zone.as_ref())?;
    compared_with(time, op, below)
}

/// A comparison of a time with a constant above `below` and before the next value of the unit.
fn compared_with(time: &Expr, op: Operator, below: Expr) -> Option<Expr> {
    let time = time.clone();
    Some(match op {
        Operator::Eq => unless_null(&time, false),
        Operator::NotEq => unless_null(&time, true),
        Operator::Lt | Operator::LtEq => time.lt_eq(below),
        Operator::Gt | Operator::GtEq => time.gt(below),
        Operator::IsDistinctFrom => lit(true),
        Operator::IsNotDistinctFrom => lit(false),
        _ => return None,
    })
}

fn in_between(between: &Between, schema: &DFSchema) -> Option<Expr> {
    let (unit, zone) = coarse(&between.expr, schema)?;
    let bounds = [&between.low, &between.high].map(|bound| rounded(bound, unit, zone.as_ref()));
    let [low, high] = bounds;
    if low.is_none() && high.is_none() {
        return None;
    }
    let time = || between.expr.as_ref().clone();
    let low = match low {
        Some(below) => time().gt(below),
        None => time().gt_eq(between.low.as_ref().clone()),
    };
    let high = match high {
        Some(below) => time().lt_eq(below),
        None => time().lt_eq(between.high.as_ref().clone()),
    };
    Some(match between.negated {
        true => datafusion::logical_expr::not(low.and(high)),
        false => low.and(high),
    })
}

fn in_list(list: &InList, schema: &DFSchema) -> Option<Expr> {
    let (unit, zone) = coarse(&list.expr, schema)?;
    let is_exact = |value: &&Expr| rounded(value, unit, zone.as_ref()).is_none();
    let exact: Vec<Expr> = list.list.iter().filter(is_exact).cloned().collect();
    if exact.len() == list.list.len() {
        return None;
    }
    Some(match exact.is_empty() {
        true => unless_null(&list.expr, list.negated),
        false => list.expr.as_ref().clone().in_list(exact, list.negated),
    })
}

/// A CASE of a timestamp: no value of its unit equals a constant between them.
fn in_case(case: &Case, schema: &DFSchema) -> Option<Expr> {
    let base = case.expr.as_ref()?;
    let (unit, zone) = coarse(base, schema)?;
    let is_between = |when: &Expr| rounded(when, unit, zone.as_ref()).is_some();
    if !case.when_then_expr.iter().any(|(when, _)| is_between(when)) {
        return None;
    }
    let null = || Expr::Literal(ScalarValue::Null, None);
    let cases = case
        .when_then_expr
        .iter()
        .map(|(when, then)| match is_between(when) {
            true => (
                Box::new(cast(null(), DataType::Timestamp(unit, zone.clone()))),
                then.clone(),
            ),
            false => (when.clone(), then.clone()),
        });
    Some(Expr::Case(Case {
        when_then_expr: cases.collect(),
        ..case.clone()
    }))
}

/// Nanoseconds of an interval beside its months and days; `None` if the interval is no constant.
fn time_of(interval: &ScalarValue) -> Option<i64> {
    match interval
        .cast_to(&DataType::Interval(IntervalUnit::MonthDayNano))
        .ok()?
    {
        ScalarValue::IntervalMonthDayNano(interval) => {
            Some(interval.map_or(0, |interval| interval.nanoseconds))
        }
        _ => None,
    }
}

/// The type of a timestamp or date of this type with an interval, if its own unit cannot hold it. `time`: the
/// nanoseconds of the interval; none if it is no constant.
fn finer(data_type: &DataType, time: Option<i64>) -> Option<DataType> {
    let (step, zone) = match data_type {
        DataType::Date32 | DataType::Date64 => (0, None),
        DataType::Timestamp(unit @ (TimeUnit::Second | TimeUnit::Millisecond), zone) => {
            (nanoseconds(*unit), zone.clone())
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => (1000, zone.clone()),
        _ => return None,
    };
    let unit = match (time.map(i128::from), step) {
        (Some(0), _) => return None,
        (Some(time), step) if step > 0 && time % step == 0 => return None,
        (Some(time), _) if time % 1000 != 0 => TimeUnit::Nanosecond,
        (None, 1000) => return None,
        _ => TimeUnit::Microsecond,
    };
    Some(DataType::Timestamp(unit, zone))
}

/// A timestamp or date plus or minus an interval that its unit cannot hold.
fn moved(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let BinaryExpr { left, op, right } = binary;
    if !matches!(op, Operator::Plus | Operator::Minus) {
        return None;
    }
    let is_interval = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Interval(_)));
    // The left operand of a long sum is not visited for each of its terms.
    let is_first = match right.get_type(schema).ok()? {
        DataType::Interval(_) => true,
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) if is_interval(left) => false,
        _ => return None,
    };
    let (time, interval) = if is_first { (left, right) } else { (right, left) };
    let nanoseconds = constant(interval).and_then(|value| time_of(&value));
    let finer = finer(&time.get_type(schema).ok()?, nanoseconds)?;
    let time = cast(time.as_ref().clone(), finer);
    let (left, right) = match is_first {
        true => (time, right.as_ref().clone()),
        false => (left.as_ref().clone(), time),
    };
    Some(Expr::BinaryExpr(BinaryExpr::new(
        Box::new(left),
        *op,
        Box::new(right),
    )))
}

/// A window over a RANGE of intervals that the unit of its order cannot hold.
fn in_window(window: &WindowFunction, schema: &DFSchema) -> Option<Expr> {
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
            finer(&data_type, Some(time_of(value)?))
        }
        _ => None,
    };
    let bounds = [of_bound(&frame.start_bound), of_bound(&frame.end_bound)];
    let nanoseconds = |found: &DataType| matches!(found, DataType::Timestamp(TimeUnit::Nanosecond, _));
    let mut bounds: Vec<DataType> = bounds.into_iter().flatten().collect();
    bounds.sort_by_key(nanoseconds);
    let finer = bounds.pop()?;
    let mut window = window.clone();
    window.params.order_by = vec![Sort {
        expr: cast(order.expr.clone(), finer),
        ..order.clone()
    }];
    Some(Expr::WindowFunction(Box::new(window)))
}
