//! Comparisons of timestamps of coarse units with constants of finer units, and with dates.
//!
//! A file with whole seconds has timestamps of seconds. DataFusion converts the constant that they are
//! compared with to their unit, so that `ts = '10:00:00.5'` was true for 10:00:00. [`CoarseTimestamps`] runs
//! before type coercion. It rounds a constant between two values of the unit down, and adapts the comparison:
//! `ts < '10:00:00.5'` becomes `ts <= '10:00:00'`. [`ExactLiterals`] does the same for literals that the
//! optimizer finds later, for example when a condition moves below a UNION. The value of `now()` is still cut
//! to the unit.
//!
//! DataFusion compares dates with timestamps in nanoseconds, which end in 2262, so that 9999-12-31 was an
//! error. Beside a timestamp of another unit, the date gets this unit. A constant date out of range is above
//! or below all timestamps of nanoseconds.

use super::is_comparison;
use super::moved_times::{finest_order, in_window};
use crate::checks::{input_schema, is_constant, names_kept};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{Between, Case, InList};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, cast, lit, not};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};
use galatea_expression::timestamp_units::per_second;
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
    let schema = input_schema(&node);
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
        Expr::BinaryExpr(binary) => comparison(binary, schema),
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
        let schema = input_schema(&plan);
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
    let varies = expr.exists(|part| Ok(!is_constant(part)));
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
        let step = per_second(of) / per_second(unit);
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

/// A comparison in the place of one that DataFusion computes in one of the two units.
fn comparison(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    compared(binary, schema).or_else(|| with_date(binary, schema))
}

/// A comparison with a constant between two values of the unit.
fn compared(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let BinaryExpr { left, op, right } = binary;
    if !is_comparison(*op) {
        return None;
    }
    let (time, (unit, zone), op, other) = match (coarse(left, schema), coarse(right, schema)) {
        (Some(unit), None) => (left, unit, *op, right),
        (None, Some(unit)) => (right, unit, op.swap().unwrap_or(*op), left),
        _ => return None,
    };
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
    if !is_comparison(op) || matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom) {
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
    let bounds = [(Operator::GtEq, &between.low), (Operator::LtEq, &between.high)];
    let bounds = bounds.map(|(op, bound)| BinaryExpr::new(between.expr.clone(), op, bound.clone()));
    let changed = bounds.each_ref().map(|bound| comparison(bound, schema));
    if changed.iter().all(Option::is_none) {
        return None;
    }
    let [low, high] = bounds;
    let [changed_low, changed_high] = changed;
    let low = changed_low.unwrap_or(Expr::BinaryExpr(low));
    let both = low.and(changed_high.unwrap_or(Expr::BinaryExpr(high)));
    Some(if between.negated { not(both) } else { both })
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
    let never = || Box::new(cast(null(), DataType::Timestamp(unit, zone.clone())));
    let cases = case.when_then_expr.iter().map(|(when, then)| {
        let when = if is_between(when) { never() } else { when.clone() };
        (when, then.clone())
    });
    Some(Expr::Case(Case {
        when_then_expr: cases.collect(),
        ..case.clone()
    }))
}
