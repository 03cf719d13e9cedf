//! Expressions of this crate with placeholders for the arguments of a call.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Function, Value};
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::parser::Parser;
use galatea_engine::syntax::visit_expressions_mut;
use std::ops::ControlFlow;

/// The expression of a string of this crate.
pub(super) fn parsed(text: &str) -> Expr {
    let parser = Parser::new(&DuckDbDialect {}).try_with_sql(text);
    let expression = parser.and_then(|mut parser| parser.parse_expr());
    expression.expect("an expression")
}

/// Replaces `$1` by the first argument, and so on.
pub(super) fn insert(expression: &mut Expr, arguments: &[Expr]) {
    let _ = visit_expressions_mut(expression, |part| {
        if let Expr::Value(value) = part
            && let Value::Placeholder(name) = &value.value
            && let Some(argument) = name[1..]
                .parse()
                .ok()
                .and_then(|number: usize| arguments.get(number - 1))
        {
            // The visitor has visited the parts before, so placeholders of the argument remain.
            *part = argument.clone();
        }
        ControlFlow::<()>::Continue(())
    });
}

/// The expression with the FILTER and OVER of a call at its aggregate functions.
pub(super) fn with_clauses(expression: Expr, call: &Function, aggregates: &[&str]) -> Expr {
    let mut expression = expression;
    let _ = visit_expressions_mut(&mut expression, |part| {
        if let Expr::Function(function) = part
            && aggregates.contains(&function.name.to_string().as_str())
        {
            function.over.clone_from(&call.over);
            function.filter = both(function.filter.take(), call.filter.clone());
        }
        ControlFlow::<()>::Continue(())
    });
    expression
}

/// The conjunction of two conditions, or the one that exists.
pub(super) fn both(one: Option<Box<Expr>>, other: Option<Box<Expr>>) -> Option<Box<Expr>> {
    match (one, other) {
        (Some(left), Some(right)) => Some(Box::new(Expr::BinaryOp {
            left: Box::new(Expr::Nested(left)),
            op: BinaryOperator::And,
            right: Box::new(Expr::Nested(right)),
        })),
        (one, other) => one.or(other),
    }
}
