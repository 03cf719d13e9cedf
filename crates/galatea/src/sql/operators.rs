//! Operators that the planner lacks, as others: `a // b`, `~a`, `l[2:]`, and LIKE with another escape
//! character than the backslash.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, Subscript, UnaryOperator, Value, ValueWithSpan,
};
use std::mem;

/// Rewrites an operator in place.
pub(super) fn rewrite(expression: &mut Expr) {
    match expression {
        // The quotient of integers is an integer.
        Expr::BinaryOp { op, .. }
            if matches!(
                op,
                BinaryOperator::DuckIntegerDivide | BinaryOperator::MyIntegerDivide
            ) =>
        {
            *op = BinaryOperator::Divide;
        }
        Expr::UnaryOp {
            op: UnaryOperator::BitwiseNot,
            expr,
        } => {
            let operand = mem::replace(expr.as_mut(), Expr::Value(Value::Null.into()));
            *expression = Expr::Nested(Box::new(Expr::BinaryOp {
                left: Box::new(Expr::Nested(Box::new(operand))),
                op: BinaryOperator::PGBitwiseXor,
                right: Box::new(number(-1)),
            }));
        }
        Expr::CompoundFieldAccess { access_chain, .. } => {
            for access in access_chain {
                if let AccessExpr::Subscript(Subscript::Slice {
                    lower_bound,
                    upper_bound,
                    ..
                }) = access
                {
                    lower_bound.get_or_insert_with(|| number(1));
                    upper_bound.get_or_insert_with(|| number(-1));
                }
            }
        }
        Expr::Like {
            pattern, escape_char, ..
        }
        | Expr::ILike {
            pattern, escape_char, ..
        } => {
            if let Some(escape) = other_escape(escape_char.as_ref())
                && let Some(escaped) = with_backslashes(pattern, escape)
            {
                **pattern = escaped;
                *escape_char = None;
            }
        }
        _ => {}
    }
}

/// An escape character that is not the backslash.
fn other_escape(escape: Option<&ValueWithSpan>) -> Option<char> {
    let escape = escape?.value.clone().into_string()?;
    let mut characters = escape.chars();
    match (characters.next(), characters.next()) {
        (Some(escape), None) if escape != '\\' => Some(escape),
        _ => None,
    }
}

/// The expression of a pattern `$1` that is not constant, with backslashes as escape characters. The
/// replacement has a noncharacter for the backslash, because a backslash in it refers to a group.
fn computed_pattern(escape: char) -> String {
    let escape = regex::escape(&escape.to_string()).replace('\'', "''");
    let mark = '\u{10FFFF}';
    format!(
        r"replace(regexp_replace(replace($1, '\', '\\'), '(?s){escape}(.)', '{mark}\1', 'g'), '{mark}', '\')"
    )
}

/// A pattern with backslashes as escape characters; `None` for a constant that ends with an escape character.
fn with_backslashes(pattern: &Expr, escape: char) -> Option<Expr> {
    let constant = match pattern {
        Expr::Value(value) => value.value.clone().into_string(),
        _ => None,
    };
    let Some(constant) = constant else {
        let mut computed = super::templates::parsed(&computed_pattern(escape));
        super::templates::insert(&mut computed, std::slice::from_ref(pattern));
        return Some(computed);
    };
    let mut escaped = String::with_capacity(constant.len());
    let mut characters = constant.chars();
    while let Some(character) = characters.next() {
        match character {
            // An escape character at the end is refused by the planner.
            _ if character == escape => escaped.extend(['\\', characters.next()?]),
            '\\' => escaped.push_str(r"\\"),
            _ => escaped.push(character),
        }
    }
    Some(super::ast_parts::text(&escaped))
}

/// Whether [`rewrite`] changes an expression, so that the planner's name of it differs.
pub(super) fn is_rewritten(expression: &Expr) -> bool {
    match expression {
        Expr::BinaryOp { op, .. } => matches!(
            op,
            BinaryOperator::DuckIntegerDivide | BinaryOperator::MyIntegerDivide
        ),
        Expr::UnaryOp { op, .. } => *op == UnaryOperator::BitwiseNot,
        Expr::CompoundFieldAccess { access_chain, .. } => access_chain.iter().any(|access| match access {
            AccessExpr::Subscript(Subscript::Slice {
                lower_bound,
                upper_bound,
                ..
            }) => lower_bound.is_none() || upper_bound.is_none(),
            _ => false,
        }),
        Expr::Like {
            pattern, escape_char, ..
        }
        | Expr::ILike {
            pattern, escape_char, ..
        } => other_escape(escape_char.as_ref())
            .is_some_and(|escape| with_backslashes(pattern, escape).is_some()),
        _ => false,
    }
}

fn number(value: i64) -> Expr {
    let digits = Expr::Value(Value::Number(value.unsigned_abs().to_string(), false).into());
    match value < 0 {
        true => Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(digits),
        },
        false => digits,
    }
}
