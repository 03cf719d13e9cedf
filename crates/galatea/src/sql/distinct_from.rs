//! IS DISTINCT FROM binds its right operand more tightly than AND and OR.
//!
//! The parser reads everything behind it as the operand: `a IS DISTINCT FROM b AND c` as `a IS DISTINCT FROM
//! (b AND c)`. Such an expression is taken apart at AND, OR and NOT outside of parentheses, and built again.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};
use std::mem;

/// A part of a condition, from left to right.
enum Part {
    Not,
    And,
    Or,
    Operand(Box<Expr>),
}

fn operator(expression: &Expr) -> Option<&BinaryOperator> {
    match expression {
        Expr::BinaryOp {
            op: op @ (BinaryOperator::And | BinaryOperator::Or),
            ..
        } => Some(op),
        _ => None,
    }
}

/// Whether the last operand of a condition has read AND or OR, too.
fn has_read_too_much(expression: &Expr) -> bool {
    let mut last = expression;
    loop {
        last = match last {
            Expr::BinaryOp { right, .. } if operator(last).is_some() => right,
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr,
            } => expr,
            Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => {
                if operator(right).is_some() {
                    return true;
                }
                right
            }
            _ => return false,
        }
    }
}

/// Gives each operand of a condition its extent.
pub(super) fn mend(condition: &mut Expr) {
    if has_read_too_much(condition) {
        let taken = mem::replace(condition, Expr::Value(Value::Null.into()));
        *condition = built(parts(taken));
    }
}

/// The parts of a condition.
fn parts(condition: Expr) -> Vec<Part> {
    let mut found = Vec::new();
    let mut rest = vec![Part::Operand(Box::new(condition))];
    while let Some(part) = rest.pop() {
        let Part::Operand(expression) = part else {
            found.push(part);
            continue;
        };
        match *expression {
            Expr::BinaryOp {
                left,
                op: op @ (BinaryOperator::And | BinaryOperator::Or),
                right,
            } => {
                let op = if op == BinaryOperator::And {
                    Part::And
                } else {
                    Part::Or
                };
                rest.extend([Part::Operand(right), op, Part::Operand(left)]);
            }
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr,
            } => rest.extend([Part::Operand(expr), Part::Not]),
            Expr::IsDistinctFrom(left, right) => compared(&left, *right, Expr::IsDistinctFrom, &mut rest),
            Expr::IsNotDistinctFrom(left, right) => {
                compared(&left, *right, Expr::IsNotDistinctFrom, &mut rest);
            }
            other => found.push(Part::Operand(Box::new(other))),
        }
    }
    found
}

/// Adds the parts of a comparison: it with the first operand on its right, then the rest, in reverse.
fn compared(left: &Expr, right: Expr, compare: fn(Box<Expr>, Box<Expr>) -> Expr, rest: &mut Vec<Part>) {
    let mut right = parts(right);
    // A comparison is no condition that is taken apart again.
    let whole = |right: Expr| Expr::Nested(Box::new(compare(Box::new(left.clone()), Box::new(right))));
    let first = match right.first() {
        Some(Part::Operand(_)) => match right.remove(0) {
            Part::Operand(first) => Part::Operand(Box::new(whole(*first))),
            other => other,
        },
        // NOT: the operand is the condition behind it.
        _ => Part::Operand(Box::new(whole(built(mem::take(&mut right))))),
    };
    rest.extend(right.into_iter().rev());
    rest.push(first);
}

/// The condition of parts: NOT before AND, and AND before OR.
fn built(parts: Vec<Part>) -> Expr {
    let (mut any, mut all): (Option<Expr>, Option<Expr>) = (None, None);
    let mut negations = 0;
    for part in parts {
        match part {
            Part::Not => negations += 1,
            Part::And => {}
            Part::Or => any = joined(any, all.take(), BinaryOperator::Or),
            Part::Operand(mut operand) => {
                for _ in 0..mem::take(&mut negations) {
                    operand = Box::new(Expr::UnaryOp {
                        op: UnaryOperator::Not,
                        expr: operand,
                    });
                }
                all = joined(all, Some(*operand), BinaryOperator::And);
            }
        }
    }
    joined(any, all, BinaryOperator::Or).unwrap_or_else(|| Expr::Value(Value::Null.into()))
}

fn joined(left: Option<Expr>, right: Option<Expr>, op: BinaryOperator) -> Option<Expr> {
    match (left, right) {
        (Some(left), Some(right)) => Some(Expr::BinaryOp {
            left: Box::new(left),
            op,
            right: Box::new(right),
        }),
        (left, right) => left.or(right),
    }
}
