//! Timestamps of coarse units, and dates, beside constants of finer units.
//!
//! A file with whole seconds has timestamps of seconds. DataFusion converts the constant that they are
//! compared with to their unit, so that `ts = '10:00:00.5'` was true for 10:00:00, and it adds intervals in
//! their unit, so that `ts + INTERVAL '500 ms'` was `ts`, and `day + INTERVAL '1 hour'` was `day`.
//!
//! [`CoarseTimestamps`] runs before type coercion. A constant between two values of the unit is rounded down,
//! and the comparison adapted: `ts < '10:00:00.5'` is `ts <= '10:00:00'`. Constants that are known only
//! later, such as `now()`, are still cut to the unit. [`MovedTimes`] plans a timestamp or date with an
//! interval that its unit cannot hold as a timestamp of microseconds or nanoseconds, as in DuckDB. It is part
//! of the planner, because all types above depend on it.
//!
//! DataFusion compares dates with timestamps in nanoseconds, which end in 2262, so that 9999-12-31 was an
//! error. Beside a timestamp of another unit, the date gets this unit. A constant date out of range is above
//! or below all timestamps of nanoseconds.
//!
//! [`ExactLiterals`] does the same as [`CoarseTimestamps`] for literals that the optimizer finds later: a
//! condition that moves below a UNION, or a constant column.

use crate::checks::names_kept;
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{Between, Case, InList, WindowFunction};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, WindowFrameBound, WindowFrameUnits, cast, lit,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};
use datafusion::sql::sqlparser::ast::BinaryOperator;
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
    // Windows of one node have one order.
    let order = match &node {
        LogicalPlan::Window(node) => finest_order(&node.window_expr, &schema),
        _ => None,
    };
    names_kept(node, |expr| {
        expr.transform_up(|part| {
            if let (Expr::WindowFunction(window), Some(order)) = (&part, &order) {
                return Ok(in_window(window, order));
            }
            Ok(in_part(part, &schema))
        })
    })
}

fn in_part(part: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let changed = match &part {
        Expr::BinaryExpr(binary) => compared(binary, schema).or_else(|| with_date(binary, schema)),
        Expr::Between(between) => in_between(between, schema),
        Expr::InList(list) => in_list(list, schema),
        Expr::Case(case) => in_case(case, schema),
        _ => None,
    };
    match changed {
        Some(changed) => Transformed::yes(changed),
        None => Transformed::no(part),
    }
}

/// The optimizer's rule before its own that removes casts around compared columns.
#[derive(Debug, Default)]
pub(super) struct ExactLiterals;

impl OptimizerRule for ExactLiterals {
    fn name(&self) -> &str {
        "galatea_exact_literals"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut schema = merge_schema(&plan.inputs());
        if let LogicalPlan::TableScan(scan) = &plan {
            schema.merge(&scan.projected_schema);
        }
        names_kept(plan, |expr| {
            expr.transform_up(|part| {
                let changed = match &part {
                    Expr::BinaryExpr(binary) => compared_cast(binary, &schema),
                    _ => None,
                };
                Ok(match changed {
                    Some(changed) => Transformed::yes(changed),
                    None => Transformed::no(part),
                })
            })
        })
    }
}

/// A comparison of a timestamp that is cast to a finer unit with a literal between two values of its own
/// unit.
fn compared_cast(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let inner = |expr: &Expr| match expr {
        Expr::Cast(cast) if matches!(cast.field.data_type(), DataType::Timestamp(..)) => {
            Some(cast.expr.as_ref().clone())
        }
        _ => None,
    };
    let is_literal = |expr: &Expr| matches!(expr, Expr::Literal(..));
    let (time, op, literal) = match (inner(&binary.left), inner(&binary.right)) {
        (Some(time), None) if is_literal(&binary.right) => (time, binary.op, &binary.right),
        (None, Some(time)) if is_literal(&binary.left) => {
            (time, binary.op.swap().unwrap_or(binary.op), &binary.left)
        }
        _ => return None,
    };
    let (unit, zone) = coarse(&time, schema)?;
    let Expr::Literal(below, _) = rounded(literal, unit, zone.as_ref())? else {
        return None;
    };
    let below = below.cast_to(&DataType::Timestamp(unit, zone)).ok()?;
    compared_with(&time, op, Expr::Literal(below, None))
}

/// Nanoseconds of a unit.
fn unit_nanoseconds(unit: TimeUnit) -> i128 {
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
            part => !matches!(
                part,
                Expr::Cast(_)
                    | Expr::TryCast(_)
                    | Expr::BinaryExpr(_)
                    | Expr::Negative(_)
                    | Expr::Literal(..)
                    | Expr::Alias(_)
            ),
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
        let step = i64::try_from(unit_nanoseconds(unit) / unit_nanoseconds(of)).ok()?;
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

/// A comparison of a timestamp with a date.
fn with_date(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let BinaryExpr { left, op, right } = binary;
    let op = *op;
    if !matches!(
        op,
        Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
    ) {
        return None;
    }
    let types = [left.get_type(schema).ok()?, right.get_type(schema).ok()?];
    match types {
        [DataType::Timestamp(unit, None), DataType::Date32] => time_with_date(left, (op, unit), right),
        [DataType::Date32, DataType::Timestamp(unit, None)] => {
            time_with_date(right, (op.swap()?, unit), left)
        }
        _ => None,
    }
}

/// A comparison of a timestamp of this unit with a date; `None` if DataFusion compares them.
fn time_with_date(time: &Expr, (op, unit): (Operator, TimeUnit), date: &Expr) -> Option<Expr> {
    let days = match constant(date) {
        Some(ScalarValue::Date32(days)) => Some(i64::from(days?)),
        Some(_) => return None,
        None => None,
    };
    let is_outside = days.is_some_and(|days| days.checked_mul(86_400_000_000_000).is_none());
    match unit {
        TimeUnit::Nanosecond if is_outside => {
            let is_above = days.is_some_and(|days| days > 0);
            Some(unless_null(
                time,
                match op {
                    Operator::Lt | Operator::LtEq => is_above,
                    Operator::Gt | Operator::GtEq => !is_above,
                    op => op == Operator::NotEq,
                },
            ))
        }
        TimeUnit::Nanosecond => None,
        unit if is_outside || days.is_none() => {
            let date = cast(date.clone(), DataType::Timestamp(unit, None));
            let (left, right) = (Box::new(time.clone()), Box::new(date));
            Some(Expr::BinaryExpr(BinaryExpr::new(left, op, right)))
        }
        _ => None,
    }
}

fn in_between(between: &Between, schema: &DFSchema) -> Option<Expr> {
    if between.expr.is_volatile() {
        return None;
    }
    let with_date = |op, bound: &Expr| {
        let binary = BinaryExpr::new(between.expr.clone(), op, Box::new(bound.clone()));
        with_date(&binary, schema)
    };
    let bounds = [
        with_date(Operator::GtEq, &between.low),
        with_date(Operator::LtEq, &between.high),
    ];
    if let [low, high] = &bounds
        && (low.is_some() || high.is_some())
    {
        let time = || between.expr.as_ref().clone();
        let low = low
            .clone()
            .unwrap_or_else(|| time().gt_eq(between.low.as_ref().clone()));
        let high = high
            .clone()
            .unwrap_or_else(|| time().lt_eq(between.high.as_ref().clone()));
        return Some(match between.negated {
            true => datafusion::logical_expr::not(low.and(high)),
            false => low.and(high),
        });
    }
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

/// The type of a timestamp or date of this type with an interval of these nanoseconds beside days and months,
/// if its own unit cannot hold the sum.
fn finer(data_type: &DataType, nanoseconds: i64) -> Option<DataType> {
    let (step, zone) = match data_type {
        DataType::Date32 | DataType::Date64 => (0, None),
        DataType::Timestamp(unit, zone) => (unit_nanoseconds(*unit), zone.clone()),
        _ => return None,
    };
    let time = i128::from(nanoseconds);
    if time == 0 || step > 0 && time % step == 0 {
        return None;
    }
    let unit = match time % 1000 {
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
fn finest_order(windows: &[Expr], schema: &DFSchema) -> Option<(Expr, DataType)> {
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
fn in_window(window: &WindowFunction, (key, finer): &(Expr, DataType)) -> Transformed<Expr> {
    let mut window = window.clone();
    let mut is_changed = false;
    for order in window
        .params
        .order_by
        .iter_mut()
        .filter(|order| order.expr == *key)
    {
        order.expr = cast(order.expr.clone(), finer.clone());
        is_changed = true;
    }
    let window = Expr::WindowFunction(Box::new(window));
    match is_changed {
        true => Transformed::yes(window),
        false => Transformed::no(window),
    }
}
