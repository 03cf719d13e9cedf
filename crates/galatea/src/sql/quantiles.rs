//! `quantile_disc(x, 0.5)`, `percentile_disc(0.5) WITHIN GROUP (ORDER BY x)` and `mode() WITHIN GROUP (ORDER
//! BY x)`.
//!
//! A discrete quantile is an element of the ordered list of values, so that it has the type of the values,
//! which need no arithmetic.

use super::SqlError;
use super::ast_parts::{call_of, is_session_function, key};
use super::templates::{insert, parsed, with_clauses};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    Array, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    UnaryOperator, Value,
};
use galatea_engine::syntax::visit_expressions_mut;
use std::ops::ControlFlow;

/// The names of the function.
pub(super) const NAMES: [&str; 3] = ["quantile_disc", "quantile", "percentile_disc"];

const FORM: &str = "write quantile_disc(x, 0.5), or percentile_disc(0.5) WITHIN GROUP (ORDER BY x)";

/// The position behind a fraction of the values. `$1`: the value, `$2`: the fraction.
const POSITION: &str = "CAST(greatest(count($1) - floor(count($1) - $2 * count($1)), 1) AS BIGINT)";

/// The expression of such a call; `None` for other calls.
pub(super) fn rewritten(call: &Function, state: &SessionState) -> Option<Result<Expr, SqlError>> {
    let [part] = call.name.0.as_slice() else {
        return None;
    };
    let name = key(part.as_ident()?);
    if name != "mode" && !NAMES.contains(&name.as_str()) {
        return None;
    }
    let arguments = arguments(call)?;
    if name == "mode" {
        let ([], [order]) = (arguments.as_slice(), call.within_group.as_slice()) else {
            return None;
        };
        let mode = call_of(Ident::new("mode"), vec![order.expr.clone()]);
        return Some(Ok(with_clauses(mode, call, &["mode"])));
    }
    if is_session_function(&name, state) {
        return None;
    }
    let (value, fraction, is_descending) = match (arguments.as_slice(), call.within_group.as_slice()) {
        ([value, fraction], []) => (value, fraction, false),
        ([fraction], [order]) => (&order.expr, fraction, order.options.asc == Some(false)),
        _ => {
            return Some(Err(SqlError::clause(
                "quantile_disc",
                "needs a value and a fraction",
                FORM,
            )));
        }
    };
    Some(match fraction {
        Expr::Array(Array { elem: fractions, .. }) => {
            let elements = fractions
                .iter()
                .map(|fraction| quantile(call, value, fraction, is_descending));
            let elements: Result<Vec<Expr>, SqlError> = elements.collect();
            elements.map(|elements| call_of(Ident::new("make_array"), elements))
        }
        fraction => quantile(call, value, fraction, is_descending),
    })
}

/// The arguments without names.
fn arguments(call: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &call.args else {
        return None;
    };
    let arguments = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument.clone()),
        _ => None,
    });
    arguments.collect()
}

fn quantile(call: &Function, value: &Expr, fraction: &Expr, is_descending: bool) -> Result<Expr, SqlError> {
    let wrong = || {
        let problem = format!("needs a number from 0 to 1 as its fraction, not {fraction}");
        SqlError::clause("quantile_disc", problem, FORM)
    };
    let (number, is_negative) = match fraction {
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => (expr.as_ref(), true),
        number => (number, false),
    };
    let Expr::Value(literal) = number else {
        return Err(wrong());
    };
    match &literal.value {
        Value::Number(text, _) if text.parse().is_ok_and(|share: f64| share <= 1.0) => {}
        _ => return Err(wrong()),
    }
    // A window function has no order of arguments.
    let values = match (call.over.is_some(), is_descending != is_negative) {
        (false, false) => "array_agg($1 ORDER BY $1) FILTER (WHERE $1 IS NOT NULL)",
        (false, true) => "array_agg($1 ORDER BY $1 DESC) FILTER (WHERE $1 IS NOT NULL)",
        (true, false) => "array_sort(array_agg($1) FILTER (WHERE $1 IS NOT NULL))",
        (true, true) => "array_sort(array_agg($1) FILTER (WHERE $1 IS NOT NULL), 'DESC')",
    };
    let mut expression = parsed(&format!("array_element({values}, {POSITION})"));
    // Between floats, as an integer would divide differently.
    let fraction = Expr::Nested(Box::new(parsed(&format!("CAST({number} AS DOUBLE)"))));
    insert(&mut expression, &[value.clone(), fraction]);
    let mut expression = with_clauses(expression, call, &["array_agg", "count"]);
    if is_distinct(call) {
        let _ = visit_expressions_mut(&mut expression, |part| {
            if let Expr::Function(function) = part
                && ["array_agg", "count"].contains(&function.name.to_string().as_str())
                && let FunctionArguments::List(list) = &mut function.args
            {
                list.duplicate_treatment = Some(DuplicateTreatment::Distinct);
            }
            ControlFlow::<()>::Continue(())
        });
    }
    Ok(expression)
}

fn is_distinct(call: &Function) -> bool {
    match &call.args {
        FunctionArguments::List(list) => list.duplicate_treatment == Some(DuplicateTreatment::Distinct),
        _ => false,
    }
}
