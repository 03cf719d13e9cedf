//! Comparisons of rows, `(a, b) < (c, d)`, as comparisons of their values.
//!
//! DataFusion compares rows as structs and NULL as a value, so that `(2, NULL) < (2, 1)` was true. In SQL,
//! the result is NULL.
//!
//! ```text
//! (a, b) = (c, d)     a = c AND b = d
//! (a, b) <= (c, d)    a < c OR a = c AND b <= d
//! (a, b) IN (x, y)    (a, b) = x OR (a, b) = y
//! ```

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

/// Whether the expression compares rows.
pub(super) fn is_comparison(expression: &Expr) -> bool {
    match expression {
        Expr::BinaryOp { left, op, right } => strict(op).is_some() && rows(left, right).is_some(),
        Expr::InList { expr, list, .. } => {
            !list.is_empty() && list.iter().all(|value| rows(expr, value).is_some())
        }
        _ => false,
    }
}

/// The comparison of rows as comparisons of values; `None` for other expressions.
pub(super) fn by_values(expression: &Expr) -> Option<Expr> {
    if !is_comparison(expression) {
        return None;
    }
    match expression {
        Expr::BinaryOp { left, op, right } => {
            let (left, right) = rows(left, right)?;
            compared(left, op, right)
        }
        Expr::InList { expr, list, negated } => {
            let equal = list.iter().map(|value| {
                let (left, right) = rows(expr, value)?;
                compared(left, &BinaryOperator::Eq, right)
            });
            let found = any(equal.collect::<Option<Vec<_>>>()?)?;
            Some(match negated {
                true => Expr::UnaryOp {
                    op: UnaryOperator::Not,
                    expr: Box::new(found),
                },
                false => found,
            })
        }
        _ => None,
    }
}

/// The values of two rows with the same number of columns; `None` for other expressions.
fn rows<'e>(left: &'e Expr, right: &'e Expr) -> Option<(&'e [Expr], &'e [Expr])> {
    match (left, right) {
        (Expr::Tuple(left), Expr::Tuple(right)) if left.len() == right.len() && !left.is_empty() => {
            Some((left, right))
        }
        _ => None,
    }
}

/// The operator for all values of a row but the last; `None` if the operator does not compare.
fn strict(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Eq => BinaryOperator::Eq,
        BinaryOperator::NotEq => BinaryOperator::NotEq,
        BinaryOperator::Lt | BinaryOperator::LtEq => BinaryOperator::Lt,
        BinaryOperator::Gt | BinaryOperator::GtEq => BinaryOperator::Gt,
        _ => return None,
    })
}

fn compared(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Option<Expr> {
    let strict = strict(op)?;
    let mut pairs = left.iter().zip(right).rev();
    let (left, right) = pairs.next()?;
    let last = binary(left.clone(), op.clone(), right.clone());
    Some(pairs.fold(last, |rest, (left, right)| {
        let first = |op: &BinaryOperator| binary(left.clone(), op.clone(), right.clone());
        match op {
            BinaryOperator::Eq => binary(first(op), BinaryOperator::And, rest),
            BinaryOperator::NotEq => binary(first(op), BinaryOperator::Or, rest),
            _ => {
                let equal = binary(first(&BinaryOperator::Eq), BinaryOperator::And, rest);
                binary(first(&strict), BinaryOperator::Or, equal)
            }
        }
    }))
}

/// The conditions joined by OR, as a balanced tree.
fn any(mut conditions: Vec<Expr>) -> Option<Expr> {
    while conditions.len() > 1 {
        let mut joined = Vec::with_capacity(conditions.len().div_ceil(2));
        let mut rest = conditions.into_iter();
        while let Some(first) = rest.next() {
            joined.push(match rest.next() {
                Some(second) => binary(first, BinaryOperator::Or, second),
                None => first,
            });
        }
        conditions = joined;
    }
    conditions.pop()
}

/// The operation in parentheses.
fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::Nested(Box::new(Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }))
}
