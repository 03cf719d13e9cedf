//! The expression in which a row raised an error.
//!
//! Errors of rows (a division by zero, a value that does not fit a type, an overflow) do not say which
//! expression they are of. All expressions of the statement's plan are asked whether they can raise such an
//! error: one alone is it, and is marked where the statement has it; of several, all are named.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, Span};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::Analyzer;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, BinaryOperator, CastKind, Spanned, Visit, visit_expressions};

/// Expressions that are named at most.
const NAMED: usize = 3;

/// The expressions that can have raised an error.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Raised {
    /// As the plan writes them.
    expressions: Vec<String>,
    /// Where the statement has it, if it is one.
    pub(crate) span: Option<Span>,
}

impl Raised {
    /// What a message says of them; nothing where the statement is marked.
    pub(crate) fn note(&self) -> Option<String> {
        match self.expressions.as_slice() {
            _ if self.span.is_some() => None,
            [] => None,
            [only] => Some(format!("in {only}")),
            [some @ .., last] if some.len() < NAMED => Some(format!("in {} or {last}", some.join(", "))),
            many => Some(format!("in {}, or others", many[..NAMED].join(", "))),
        }
    }
}

/// What a row raised.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    Division,
    /// With the message, which names the type of the target.
    Cast(String),
    /// Of this operator, where the message says so.
    Overflow(Option<Operator>),
    /// Of a sum.
    Sum,
}

impl Fault {
    fn of(error: &DataFusionError) -> Option<Self> {
        let message = error.find_root().to_string();
        if message.contains("Divide by zero") {
            return Some(Self::Division);
        }
        if message.contains("Overflow happened in a sum") {
            return Some(Self::Sum);
        }
        if let Some((_, operands)) = message.split_once("Overflow happened") {
            let operators = [
                (" + ", Operator::Plus),
                (" - ", Operator::Minus),
                (" * ", Operator::Multiply),
            ];
            let operator = operators.into_iter().find(|(sign, _)| operands.contains(sign));
            return Some(Self::Overflow(operator.map(|(_, operator)| operator)));
        }
        let is_cast = ["Cast error", "Cannot cast", "Can't cast"];
        is_cast
            .iter()
            .any(|text| message.contains(text))
            .then_some(Self::Cast(message))
    }

    /// Whether an expression over rows of `schema` can raise it.
    fn is_raised_by(&self, expression: &Expr, schema: &DFSchema) -> bool {
        let is_exact = |expression: &Expr| {
            let data_type = expression.get_type(schema);
            data_type.is_ok_and(|data_type| data_type.is_integer() || data_type.is_decimal())
        };
        match (self, expression) {
            (Self::Division, Expr::BinaryExpr(BinaryExpr { op, right, .. })) => {
                matches!(op, Operator::Divide | Operator::Modulo)
                    && !matches!(right.as_ref(), Expr::Literal(value, _) if is_number(&value.to_string()))
                    && is_exact(expression)
            }
            (Self::Overflow(operator), Expr::BinaryExpr(BinaryExpr { op, .. })) => {
                let can = matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply);
                can && operator.is_none_or(|operator| operator == *op) && is_exact(expression)
            }
            (Self::Sum, Expr::AggregateFunction(call)) => call.func.name() == "sum",
            (Self::Sum, Expr::WindowFunction(call)) => call.fun.name() == "sum",
            (Self::Cast(message), Expr::Cast(cast)) => {
                let from_text = message.contains("string");
                let is_text = |data_type: DataType| data_type.is_string() || data_type.is_null();
                let source = cast.expr.get_type(schema).is_ok_and(is_text);
                message.contains(&cast.field.data_type().to_string()) && source == from_text
            }
            _ => false,
        }
    }

    /// Whether an expression of the statement's text is of the kind that raises it.
    fn is_written(&self, expression: &ast::Expr) -> bool {
        match (self, expression) {
            (Self::Division, ast::Expr::BinaryOp { op, right, .. }) => {
                matches!(op, BinaryOperator::Divide | BinaryOperator::Modulo)
                    && !is_number(&right.to_string())
            }
            (Self::Overflow(operator), ast::Expr::BinaryOp { op, .. }) => match op {
                BinaryOperator::Plus => operator.is_none_or(|operator| operator == Operator::Plus),
                BinaryOperator::Minus => operator.is_none_or(|operator| operator == Operator::Minus),
                BinaryOperator::Multiply => operator.is_none_or(|operator| operator == Operator::Multiply),
                _ => false,
            },
            (Self::Sum, ast::Expr::Function(call)) => call.name.to_string().eq_ignore_ascii_case("sum"),
            (Self::Cast(_), ast::Expr::Cast { kind, .. }) => {
                matches!(kind, CastKind::Cast | CastKind::DoubleColon)
            }
            _ => false,
        }
    }
}

/// Whether a text is a number other than 0.
fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(|number| number != 0.0)
}

/// The expressions of a statement that can have raised `error`; none where rows do not raise such errors.
pub(crate) async fn raised(ctx: &SessionContext, statement: &str, error: &DataFusionError) -> Option<Raised> {
    let fault = Fault::of(error)?;
    let state = ctx.state();
    let parsed = galatea::statement(statement, &state).await.ok()?;
    let written = written(&parsed, &fault);
    let plan = state.statement_to_plan(parsed).await.ok()?;
    // Types are decided, and no constant is folded, which would raise the error. The session's own analyzer
    // leaves queries to its planner.
    let plan = Analyzer::new()
        .execute_and_check(plan, state.config_options(), |_, _| {})
        .ok()?;
    let candidates = candidates(&plan, &fault).ok()?;
    let span = match candidates.iter().collect::<Vec<_>>().as_slice() {
        [(_, operands)] => {
            let same = written.iter().find(|(text, _)| text == *operands);
            let only = match written.as_slice() {
                // A cast may be one that the planner added.
                [(_, span)] if !matches!(fault, Fault::Cast(_)) => Some(*span),
                _ => None,
            };
            same.map(|(_, span)| *span).or(only)
        }
        _ => None,
    };
    Some(Raised {
        expressions: candidates.into_keys().collect(),
        span,
    })
}

/// The expressions of a plan that can raise the fault, each with what it is compared by to the statement's.
fn candidates(plan: &LogicalPlan, fault: &Fault) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    plan.apply_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                if fault.is_raised_by(part, &schema) {
                    let compared = match part {
                        Expr::Cast(cast) => plain(&shown(&cast.expr)),
                        other => plain(&shown(other)),
                    };
                    found.insert(shown(part), compared);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// The expressions of a statement's text that are of the fault's kind, in a form to compare, and where they
/// are.
fn written(statement: &Statement, fault: &Fault) -> Vec<(String, Span)> {
    match statement {
        Statement::Statement(statement) => expressions(statement.as_ref(), fault),
        Statement::Explain(explain) => written(&explain.statement, fault),
        _ => Vec::new(),
    }
}

fn expressions(tree: &impl Visit, fault: &Fault) -> Vec<(String, Span)> {
    let mut found = Vec::new();
    let _ = visit_expressions(tree, |expression| {
        if fault.is_written(expression)
            && let Some(span) = Span::try_from_sqlparser_span(expression.span())
        {
            let compared = match expression {
                ast::Expr::Cast { expr, .. } => plain(&expr.to_string()),
                other => plain(&other.to_string()),
            };
            found.push((compared, span));
        }
        ControlFlow::<()>::Continue(())
    });
    found
}

/// Types that the plan writes around constants; those that end like others come before them.
const TYPES: [&str; 14] = [
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Float32",
    "Float64",
    "LargeUtf8",
    "Utf8View",
    "Utf8",
    "Boolean",
];

/// An expression as the plan writes it, but with bare constants.
fn shown(expression: &Expr) -> String {
    let mut text = expression.to_string();
    for name in TYPES {
        let opening = format!("{name}(");
        while let Some(start) = text.find(&opening) {
            let constant = start + opening.len();
            let Some(end) = text[constant..].find(')') else {
                break;
            };
            text.replace_range(constant + end..=constant + end, "");
            text.replace_range(start..constant, "");
        }
    }
    text
}

/// A text without the qualifiers of columns, parentheses, quotes and space.
fn plain(text: &str) -> String {
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '"';
    let mut plain = String::new();
    let mut word = String::new();
    for letter in text.chars().chain([' ']) {
        match letter {
            letter if is_name(letter) => word.push(letter),
            '.' if word.starts_with(|first: char| !first.is_ascii_digit()) => word.clear(),
            letter => {
                plain += &word;
                word.clear();
                plain.extend(Some(letter).filter(|letter| !matches!(letter, '(' | ')' | '\'' | ' ')));
            }
        }
    }
    plain.replace('"', "").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn of(setup: &str, statement: &str) -> Option<Raised> {
        let ctx = SessionContext::new();
        ctx.sql(setup)
            .await
            .expect("a table")
            .collect()
            .await
            .expect("a table");
        let planned = ctx.sql(statement).await.expect("plans");
        let error = planned.collect().await.expect_err("a row raises an error");
        raised(&ctx, statement, &error).await
    }

    const TABLE: &str = "CREATE TABLE t AS SELECT * FROM (VALUES (1, 0, 'x'), (2, 3, '4')) AS v(a, b, s)";

    fn columns(raised: &Raised) -> Option<(u64, u64, u64)> {
        let span = raised.span?;
        Some((span.start.line, span.start.column, span.end.column))
    }

    #[tokio::test]
    async fn one_expression_is_marked() {
        let division = of(TABLE, "SELECT a + 1,\n  a / b\nFROM t WHERE a / 2 < 9")
            .await
            .expect("found");
        assert_eq!((columns(&division), division.note()), (Some((2, 3, 8)), None));
        let cast = of(TABLE, "SELECT CAST(a AS VARCHAR), CAST(s AS BIGINT) FROM t")
            .await
            .expect("found");
        assert_eq!((columns(&cast), cast.note()), (Some((1, 33, 34)), None));
        let twice = of(TABLE, "SELECT t.a / t.b, count(*) FROM t GROUP BY a / b")
            .await
            .expect("found");
        assert_eq!(columns(&twice), Some((1, 8, 17)));
    }

    #[tokio::test]
    async fn others_are_named() {
        let added = of(TABLE, "SELECT CAST(a AS VARCHAR) FROM t WHERE s < 5")
            .await
            .expect("found");
        assert_eq!(added.note().as_deref(), Some("in CAST(t.s AS Int64)"));
        let several = of(TABLE, "SELECT a / b, b % (a - 2) FROM t")
            .await
            .expect("found");
        assert_eq!(several.note().as_deref(), Some("in t.a / t.b or t.b % (t.a - 2)"));
    }

    #[tokio::test]
    async fn errors_that_are_not_of_rows_have_none() {
        let ctx = SessionContext::new();
        let error = ctx.sql("SELECT nothing").await.expect_err("no such column");
        assert_eq!(raised(&ctx, "SELECT nothing", &error).await, None);
    }

    #[test]
    fn names_are_compared_without_tables() {
        assert_eq!(plain("t.a / (\"T\".\"B\" + 1.5)"), "a/b+1.5");
    }
}
