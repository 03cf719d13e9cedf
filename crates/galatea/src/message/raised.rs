//! Finds the position in a statement of the expression that raised an error for a row.
//!
//! The error contains the expression as the plan writes it: with column names, and with casts that the
//! planner added. It is compared with the expressions of the statement, without casts, qualifiers and
//! parentheses. An expression of a view, or one that the planner rewrote, is not found in the statement. The
//! message alone shows it.

use std::ops::ControlFlow;

use datafusion::common::Span;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, Spanned, Visit, visit_expressions};
use galatea_engine::checks::RowError;

use crate::sql::statement as parse;

/// The position of the expression in the statement; `None` if no row raised the error.
pub async fn raised_at(ctx: &SessionContext, statement: &str, error: &DataFusionError) -> Option<Span> {
    let error = RowError::of(error)?;
    let parsed = parse(statement, &ctx.state()).await.ok()?;
    find(&parsed, &error.expression)
}

fn find(statement: &Statement, expression: &str) -> Option<Span> {
    match statement {
        Statement::Statement(statement) => find_in(statement.as_ref(), expression),
        Statement::Explain(explain) => find(&explain.statement, expression),
        _ => None,
    }
}

/// The position of the first equal expression.
fn find_in(tree: &impl Visit, expression: &str) -> Option<Span> {
    let operand = operand_of_cast(expression);
    let wanted = comparable(operand.unwrap_or(expression));
    let found = visit_expressions(tree, |written| {
        let compared = match (written, operand) {
            (ast::Expr::Cast { expr, .. }, Some(_)) => expr.to_string(),
            (ast::Expr::BinaryOp { .. } | ast::Expr::UnaryOp { .. }, None) => written.to_string(),
            (ast::Expr::Function(call), None) => format!("{}{}", call.name, call.args),
            _ => return ControlFlow::Continue(()),
        };
        match Span::try_from_sqlparser_span(written.span()) {
            Some(span) if comparable(&compared) == wanted => ControlFlow::Break(span),
            _ => ControlFlow::Continue(()),
        }
    });
    match found {
        ControlFlow::Break(span) => Some(span),
        ControlFlow::Continue(()) => None,
    }
}

/// The operand of an expression that is a cast.
fn operand_of_cast(expression: &str) -> Option<&str> {
    let cast = expression.strip_prefix("TRY_").unwrap_or(expression);
    let inside = cast.strip_prefix("CAST(")?;
    let (inside, rest) = inside.split_at(end_of_parentheses(inside)?);
    let (operand, _) = inside.rsplit_once(" AS ")?;
    (rest == ")").then_some(operand)
}

/// The end of the parenthesis that is open at the start.
fn end_of_parentheses(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.char_indices().find_map(|(at, letter)| {
        match letter {
            '(' => depth += 1,
            ')' if depth == 0 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
        None
    })
}

/// An expression without casts, column qualifiers, parentheses, quotes, spaces and the types that DataFusion
/// writes around constants.
fn comparable(text: &str) -> String {
    plain(&without_casts(text))
}

fn without_casts(text: &str) -> String {
    if let Some((before, inside)) = text.split_once("CAST(")
        && let Some(end) = end_of_parentheses(inside)
    {
        let (inside, after) = (&inside[..end], &inside[end + 1..]);
        let operand = inside.rsplit_once(" AS ").map_or(inside, |(operand, _)| operand);
        let before = before.strip_suffix("TRY_").unwrap_or(before);
        return format!("{before}({}){}", without_casts(operand), without_casts(after));
    }
    let Some((before, behind)) = text.split_once("::") else {
        return text.to_owned();
    };
    let after = behind.trim_start_matches(|letter: char| letter.is_alphanumeric() || letter == '_');
    let after = match after.strip_prefix('(') {
        Some(inside) => end_of_parentheses(inside).map_or(after, |end| &inside[end + 1..]),
        None => after,
    };
    format!("{before}{}", without_casts(after))
}

/// The types that column names have around constants. A type that ends like another one precedes it.
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

fn plain(text: &str) -> String {
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '"';
    let mut plain = String::new();
    let mut word = String::new();
    for letter in text.chars().chain([' ']) {
        match letter {
            letter if is_name(letter) => word.push(letter),
            '.' if word.starts_with(|first: char| !first.is_ascii_digit()) => word.clear(),
            letter => {
                if letter != '(' || !TYPES.contains(&word.as_str()) {
                    plain += &word;
                }
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

    async fn columns(statement: &str, expression: &str) -> Option<(u64, u64, u64)> {
        let ctx = SessionContext::new();
        let parsed = parse(statement, &ctx.state()).await.expect("parses");
        let span = find(&parsed, expression)?;
        Some((span.start.line, span.start.column, span.end.column))
    }

    #[tokio::test]
    async fn failing_expressions_are_located() {
        let divides = "SELECT a + 1,\n  a / b, b / a\nFROM t WHERE a / 2 < 9";
        assert_eq!(columns(divides, "a / b").await, Some((2, 3, 8)));
        assert_eq!(columns(divides, "CAST(a AS Int64) / b").await, Some((2, 3, 8)));
        assert_eq!(columns(divides, "b / a").await, Some((2, 10, 15)));
        let casts = "SELECT CAST(a AS VARCHAR), CAST(s AS BIGINT) FROM t";
        assert_eq!(columns(casts, "CAST(s AS Int64)").await, Some((1, 33, 34)));
        let qualified = "SELECT t.a / (t.b - 1), count(*) FROM t GROUP BY a / b";
        assert_eq!(columns(qualified, "a / b - 1").await, Some((1, 8, 22)));
        let sums = "SELECT max(a), sum(a + 9) OVER (ORDER BY b) FROM t";
        assert_eq!(columns(sums, "sum(t.a + Int64(9))").await, Some((1, 16, 25)));
        let short = "SELECT (a::DECIMAL(10, 2) + b)::INT / c FROM t";
        assert_eq!(
            columns(short, "CAST(CAST(a AS Decimal128(10, 2)) + b AS Int32) / c").await,
            Some((1, 9, 40))
        );
    }

    #[tokio::test]
    async fn view_and_planner_expressions_are_not_located() {
        assert_eq!(columns("SELECT b / 2 FROM v", "a / b").await, None);
        assert_eq!(
            columns("SELECT s FROM t WHERE s < 5", "CAST(s AS Int64)").await,
            None
        );
    }

    #[tokio::test]
    async fn planning_errors_have_no_expression_location() {
        let ctx = SessionContext::new();
        let error = ctx.sql("SELECT nothing").await.expect_err("no such column");
        assert_eq!(raised_at(&ctx, "SELECT nothing", &error).await, None);
    }

    #[test]
    fn names_are_compared_without_tables() {
        assert_eq!(comparable("t.a / (\"T\".\"B\" + 1.5)"), "a/b+1.5");
    }
}
