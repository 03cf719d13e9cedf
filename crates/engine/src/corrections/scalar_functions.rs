//! Functions and expressions with wrong results for some arguments, replaced by equivalent ones:
//!
//! * `nullif(x, 0)` and `CASE x WHEN 0` of floats compare bits, so that -0.0 differs from 0.0. They become
//!   conditions with `=`.
//! * A cast of a timestamp with a time zone to one without returns the digits of UTC. Every other conversion
//!   returns those of the zone, and so does the cast of `to_local_time`.
//! * `lpad` and `rpad` to a negative length panic. It becomes 0.
//! * `round` of a decimal has another type before its number of places is converted. The places become a
//!   number of the type that the function takes.
//! * `range` of dates leaves out the last date if it is less than a step before the end. It becomes a range
//!   of timestamps.
//!
//! The rule runs before type coercion.

use super::session_zone::is_utc;
use crate::checks::{input_schema, names_kept};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::functions::core::nullif::NullIfFunc;
use datafusion::functions::datetime::to_local_time;
use datafusion::functions::math::round::RoundFunc;
use datafusion::functions::unicode::{lpad::LPadFunc, rpad::RPadFunc};
use datafusion::functions_nested::range::Range;
use datafusion::logical_expr::expr::{Case, Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, cast, lit, when};
use datafusion::optimizer::AnalyzerRule;

/// Maximum number of parts of an expression that a replacement contains more than once.
const MOST_PARTS: usize = 32;

/// The rule; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct ReplaceScalars;

impl AnalyzerRule for ReplaceScalars {
    fn name(&self) -> &'static str {
        "galatea_replace_scalars"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|node| {
            let schema = input_schema(&node);
            names_kept(node, |expr| expr.transform_up(|part| replaced(part, &schema)))
        });
        Ok(changed?.data)
    }
}

fn replaced(part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed = match &part {
        Expr::ScalarFunction(call) => in_call(call, schema)?,
        Expr::Case(case) => in_case(case, schema),
        Expr::Cast(Cast { expr, field }) => local_time(expr, field.data_type(), schema).map(|expr| {
            let (expr, field) = (Box::new(expr), field.clone());
            Expr::Cast(Cast { expr, field })
        }),
        Expr::TryCast(TryCast { expr, field }) => local_time(expr, field.data_type(), schema).map(|expr| {
            let (expr, field) = (Box::new(expr), field.clone());
            Expr::TryCast(TryCast { expr, field })
        }),
        _ => None,
    };
    Ok(match changed {
        Some(changed) => Transformed::yes(changed),
        None => Transformed::no(part),
    })
}

/// Whether an expression may be written more than once.
fn is_small(expr: &Expr) -> bool {
    let mut parts = 0;
    let counted = expr.exists(|part| {
        parts += 1;
        Ok(parts > MOST_PARTS || matches!(part, Expr::ScalarSubquery(_)))
    });
    !counted.unwrap_or(true)
}

fn is_float(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema)
        .is_ok_and(|data_type| data_type.is_floating())
}

fn in_call(call: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let function = call.func.inner();
    if function.is::<NullIfFunc>() {
        let [value, other] = call.args.as_slice() else {
            return Ok(None);
        };
        let compares = is_float(value, schema) || is_float(other, schema);
        if !compares || value.is_volatile() || !is_small(value) {
            return Ok(None);
        }
        let equals = value.clone().eq(other.clone());
        let null = Expr::Literal(ScalarValue::Null, None);
        let unequal = when(equals, null).otherwise(value.clone())?;
        // The function returns the common type of its arguments.
        let common = comparison_coercion(&value.get_type(schema)?, &other.get_type(schema)?);
        return Ok(common.map(|common| cast(unequal, common)));
    }
    if function.is::<Range>() && call.func.name() == "range" {
        let [first, end, step] = call.args.as_slice() else {
            return Ok(None);
        };
        let dates = [first, end].map(|date| date.get_type(schema).is_ok_and(|own| own == DataType::Date32));
        if dates != [true; 2] {
            return Ok(None);
        }
        let time = |date: &Expr| cast(date.clone(), DataType::Timestamp(TimeUnit::Nanosecond, None));
        let times = call.func.call(vec![time(first), time(end), step.clone()]);
        return Ok(Some(cast(times, DataType::new_list(DataType::Date32, true))));
    }
    if function.is::<RoundFunc>()
        && let [_, Expr::Literal(ScalarValue::Int64(Some(places)), _)] = call.args.as_slice()
        && let Ok(places) = i32::try_from(*places)
    {
        let mut call = call.clone();
        call.args[1] = lit(places);
        return Ok(Some(Expr::ScalarFunction(call)));
    }
    let is_padding = function.is::<LPadFunc>() || function.is::<RPadFunc>();
    match call.args.get(1) {
        Some(length)
            if is_padding
                && !matches!(length, Expr::Literal(..))
                && !length.is_volatile()
                && is_small(length) =>
        {
            let mut call = call.clone();
            let negative = length.clone().lt(lit(0_i64));
            call.args[1] = when(negative, lit(0_i64)).otherwise(length.clone())?;
            Ok(Some(Expr::ScalarFunction(call)))
        }
        _ => Ok(None),
    }
}

/// A CASE with a value of floats, as a CASE of conditions.
fn in_case(case: &Case, schema: &DFSchema) -> Option<Expr> {
    let value = case.expr.as_ref()?;
    let whens = || case.when_then_expr.iter().map(|(when, _)| when);
    let compares = is_float(value, schema) || whens().any(|when| is_float(when, schema));
    if !compares || value.is_volatile() || !is_small(value) {
        return None;
    }
    let cases = case.when_then_expr.iter().map(|(when, then)| {
        let equals = value.as_ref().clone().eq(when.as_ref().clone());
        (Box::new(equals), then.clone())
    });
    Some(Expr::Case(Case {
        expr: None,
        when_then_expr: cases.collect(),
        else_expr: case.else_expr.clone(),
    }))
}

/// The local time of a timestamp with a time zone that is cast to one without.
fn local_time(expr: &Expr, to: &DataType, schema: &DFSchema) -> Option<Expr> {
    let DataType::Timestamp(_, None) = to else {
        return None;
    };
    match expr.get_type(schema).ok()? {
        DataType::Timestamp(_, Some(zone)) if !is_utc(&zone) => {
            Some(to_local_time().call(vec![expr.clone()]))
        }
        _ => None,
    }
}
