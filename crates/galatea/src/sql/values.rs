//! `VALUES ((SELECT max(a) FROM t), 1)`: rows with subqueries, which the planner evaluates before the
//! subqueries.
//!
//! They become `SELECT (SELECT max(a) FROM t) AS column1, 1 AS column2`, several rows a UNION ALL.

use super::ast_parts::each_part;
use super::question::select_of;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, SelectItem, SetExpr, SetOperator, SetQuantifier};
use std::ops::ControlFlow;

/// Rewrites the VALUES of a query, if they have subqueries.
pub(super) fn as_selects(query: &mut Query) {
    let SetExpr::Values(values) = query.body.as_mut() else {
        return;
    };
    let mut found = false;
    for value in values.rows.iter_mut().flat_map(|row| &mut row.content) {
        // The visit of a part that is too deep ends with an error of its own.
        let _ = each_part(value, |part| {
            found |= matches!(
                part,
                Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. }
            );
            ControlFlow::Continue(())
        });
    }
    if found {
        let rows = values.rows.iter().map(|row| select(&row.content));
        if let Some(body) = united(rows.collect()) {
            *query.body = body;
        }
    }
}

fn select(row: &[Expr]) -> SetExpr {
    let columns = row
        .iter()
        .enumerate()
        .map(|(number, value)| SelectItem::ExprWithAlias {
            expr: value.clone(),
            alias: Ident::new(format!("column{}", number + 1)),
        });
    SetExpr::Select(Box::new(select_of(columns.collect(), Vec::new())))
}

/// The UNION ALL of queries, with few levels.
fn united(mut queries: Vec<SetExpr>) -> Option<SetExpr> {
    let rest = match queries.len() {
        0 => return None,
        1 => return queries.pop(),
        count => queries.split_off(count / 2),
    };
    Some(SetExpr::SetOperation {
        left: Box::new(united(queries)?),
        op: SetOperator::Union,
        set_quantifier: SetQuantifier::All,
        right: Box::new(united(rest)?),
    })
}
