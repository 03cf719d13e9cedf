//! `ORDER BY ALL`: all output columns, from left to right.
//!
//! The clause becomes the positions of the columns, so it orders set operations, computed columns and columns
//! of one name alike. The columns of `*` are counted.

use super::SqlError;
use super::question::{Answer, Question, query_over};
use datafusion::error::Result;
use datafusion::sql::sqlparser::ast::{
    Expr, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, Select, SelectItem, SetExpr, Value,
};

/// The options of an ORDER BY ALL; `None` for any other order.
fn options(order: &OrderBy) -> Option<OrderByOptions> {
    match &order.kind {
        OrderByKind::All(options) => Some(*options),
        // Most dialects read ALL as the name of a column.
        OrderByKind::Expressions(keys) => match keys.as_slice() {
            [
                OrderByExpr {
                    expr: Expr::Identifier(name),
                    options,
                    with_fill: None,
                },
            ] if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all") => Some(*options),
            _ => None,
        },
    }
}

/// The SELECT that names the columns of a query.
fn named_by(body: &SetExpr) -> Option<&SetExpr> {
    match body {
        SetExpr::SetOperation { left, .. } => named_by(left),
        SetExpr::Query(query) => named_by(&query.body),
        body @ (SetExpr::Select(_) | SetExpr::Values(_)) => Some(body),
        _ => None,
    }
}

fn is_wildcard(item: &&SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

/// The wildcards of a SELECT, as a query of its tables.
fn wildcards(select: &Select) -> Option<Query> {
    let items: Vec<SelectItem> = select.projection.iter().filter(is_wildcard).cloned().collect();
    (!items.is_empty()).then(|| query_over(items.clone(), select.from.clone()))
}

/// A query with the columns to count. Without wildcards, its columns are not used.
pub(super) fn question(query: &Query) -> Option<Question> {
    options(query.order_by.as_ref()?)?;
    let nothing = || {
        let one = SelectItem::UnnamedExpr(number(1));
        query_over(vec![one], Vec::new())
    };
    let counted = match named_by(&query.body) {
        Some(SetExpr::Select(select)) => wildcards(select).unwrap_or_else(nothing),
        _ => nothing(),
    };
    Some(Question::Columns(counted))
}

/// Orders a query by its columns.
pub(super) fn rewrite(query: &mut Query, answer: Answer) -> Result<()> {
    let Some(options) = query.order_by.as_ref().and_then(options) else {
        return Ok(());
    };
    let Answer::Columns(Some(found)) = answer else {
        // The planner reports the error of the tables.
        query.order_by = None;
        return Ok(());
    };
    let columns = match named_by(&query.body) {
        Some(SetExpr::Select(select)) => {
            let others = select.projection.iter().filter(|item| !is_wildcard(item)).count();
            match others == select.projection.len() {
                true => others,
                false => others + found.len(),
            }
        }
        Some(SetExpr::Values(values)) => values.rows.first().map_or(0, |row| row.content.len()),
        _ => return Err(SqlError::unsupported("ORDER BY ALL of this kind of query").into()),
    };
    let keys = (1..=columns).map(|column| OrderByExpr {
        expr: number(column),
        options,
        with_fill: None,
    });
    query.order_by = (columns > 0).then(|| OrderBy {
        kind: OrderByKind::Expressions(keys.collect()),
        interpolate: None,
    });
    Ok(())
}

fn number(value: usize) -> Expr {
    Expr::Value(Value::Number(value.to_string(), false).into())
}
