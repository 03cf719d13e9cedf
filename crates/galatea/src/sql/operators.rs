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
            if let Some(escaped) = with_backslashes(pattern, escape_char.as_ref()) {
                **pattern = escaped;
                *escape_char = None;
            }
        }
        _ => {}
    }
}

/// A constant pattern with backslashes as escape characters; `None` if it has them already.
fn with_backslashes(pattern: &Expr, escape: Option<&ValueWithSpan>) -> Option<Expr> {
    let mut escape = escape?
        .value
        .clone()
        .into_string()?
        .chars()
        .collect::<Vec<_>>()
        .into_iter();
    let (Some(escape), None) = (escape.next(), escape.next()) else {
        return None;
    };
    let Expr::Value(pattern) = pattern else {
        return None;
    };
    let pattern = pattern.value.clone().into_string().filter(|_| escape != '\\')?;
    let mut escaped = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
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
        } => with_backslashes(pattern, escape_char.as_ref()).is_some(),
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
