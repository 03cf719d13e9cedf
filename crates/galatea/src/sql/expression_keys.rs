//! Strings by which expressions of a SELECT are compared.
//!
//! The planner names an expression without its casts and without its subqueries: `sum(CAST(a AS DOUBLE))` and
//! `sum(a)` have one name, as have `(SELECT 1)` and `(SELECT 2)`. A literal has the name of its value.

use super::ast_parts::{call, each_part, key};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{Expr, Function, Ident, ObjectName, TypedString, Value};
use std::mem;
use std::ops::ControlFlow;

/// The parts of an expression that a comparison ignores, beside parentheses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ignored {
    /// None.
    Nothing,
    /// The tables of columns.
    Tables,
    /// The tables of columns, and all parts that the planner's name of the expression lacks.
    Unnamed,
}

/// The expression without the parts.
pub(super) fn expression_key(expression: &Expr, ignored: Ignored, state: &SessionState) -> String {
    let mut copy = expression.clone();
    // The closure returns no error.
    let _ = each_part(&mut copy, |part| {
        simplify(part, ignored, state);
        ControlFlow::Continue(())
    });
    copy.to_string()
}

fn simplify(part: &mut Expr, ignored: Ignored, state: &SessionState) {
    let null = || Expr::Value(Value::Null.into());
    let quoted = |name: &Ident| Ident::with_quote('"', key(name));
    match part {
        Expr::Nested(inner) => *part = mem::replace(inner.as_mut(), null()),
        Expr::Identifier(name) => *name = quoted(name),
        Expr::CompoundIdentifier(names) => {
            let names: Vec<Ident> = names.iter().map(quoted).collect();
            *part = match (ignored, names.last()) {
                (Ignored::Tables | Ignored::Unnamed, Some(column)) => Expr::Identifier(column.clone()),
                _ => Expr::CompoundIdentifier(names),
            };
        }
        Expr::Function(function) => canonical(function, state),
        Expr::Extract { field, expr, .. } => {
            let field = Value::SingleQuotedString(field.to_string().to_lowercase());
            let arguments = vec![Expr::Value(field.into()), mem::replace(expr.as_mut(), null())];
            *part = call("date_part", arguments);
        }
        _ if ignored == Ignored::Unnamed => unnamed(part),
        _ => {}
    }
}

/// Replaces a part that the planner's names lack.
fn unnamed(part: &mut Expr) {
    let null = || Expr::Value(Value::Null.into());
    let name = |name: &str| Expr::Identifier(Ident::new(name));
    match part {
        Expr::Cast { expr, .. } => *part = mem::replace(expr.as_mut(), null()),
        Expr::TypedString(TypedString { value, .. }) => *part = Expr::Value(value.clone()),
        Expr::Subquery(_) => *part = name("<subquery>"),
        Expr::Exists { negated: false, .. } => *part = name("EXISTS"),
        Expr::Exists { negated: true, .. } => *part = name("NOT EXISTS"),
        Expr::InSubquery { negated: false, .. } => *part = name("IN"),
        Expr::InSubquery { negated: true, .. } => *part = name("NOT IN"),
        Expr::AnyOp {
            left,
            compare_op,
            right,
            ..
        } if is_subquery(right) => {
            *part = call(
                &format!("{compare_op} ANY"),
                vec![mem::replace(left.as_mut(), null())],
            );
        }
        Expr::AllOp {
            left,
            compare_op,
            right,
        } if is_subquery(right) => {
            *part = call(
                &format!("{compare_op} ALL"),
                vec![mem::replace(left.as_mut(), null())],
            );
        }
        Expr::Value(value) => value.value = unspelled(mem::replace(&mut value.value, Value::Null)),
        Expr::Position { expr, r#in } => {
            let arguments = [r#in, expr].map(|argument| mem::replace(argument.as_mut(), null()));
            *part = call("strpos", arguments.to_vec());
        }
        Expr::Substring {
            expr,
            substring_from: Some(from),
            substring_for,
            ..
        } => {
            let arguments = [Some(expr), Some(from), substring_for.as_mut()];
            let arguments = arguments.into_iter().flatten();
            let arguments = arguments.map(|argument| mem::replace(argument.as_mut(), null()));
            *part = call("substr", arguments.collect());
        }
        _ => {}
    }
}

fn is_subquery(expression: &Expr) -> bool {
    match expression {
        Expr::Nested(inner) => is_subquery(inner),
        Expr::Subquery(_) => true,
        expression => *expression == Expr::Identifier(Ident::new("<subquery>")),
    }
}

/// The literal in one of its spellings: `1.0` and `1e0` are one number, `'a'` and `$$a$$` one string.
fn unspelled(value: Value) -> Value {
    match value {
        Value::Number(text, is_long) if text.contains(['.', 'e', 'E']) => match text.parse::<f64>() {
            Ok(number) => Value::Number(format!("{number:e}"), is_long),
            Err(_) => Value::Number(text, is_long),
        },
        Value::EscapedStringLiteral(text) => Value::SingleQuotedString(text),
        Value::DollarQuotedString(text) => Value::SingleQuotedString(text.value),
        Value::HexStringLiteral(text) => Value::HexStringLiteral(text.to_ascii_lowercase()),
        value => value,
    }
}

/// Replaces the name of a function by the one that its other names stand for.
fn canonical(function: &mut Function, state: &SessionState) {
    let [part] = function.name.0.as_slice() else {
        return;
    };
    let Some(name) = part.as_ident().map(key) else {
        return;
    };
    let known = state.aggregate_functions().get(&name);
    let known = known.map(|function| function.name().to_owned());
    let known = known.or_else(|| Some(state.scalar_functions().get(&name)?.name().to_owned()));
    let known = known.or_else(|| Some(state.window_functions().get(&name)?.name().to_owned()));
    function.name = ObjectName::from(vec![Ident::with_quote('"', known.unwrap_or(name))]);
}
