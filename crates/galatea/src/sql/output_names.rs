//! Names of output columns, which DataFusion requires to be different unless tables distinguish them.

use super::SqlError;
use super::ast_parts::key;
use datafusion::sql::sqlparser::ast::{Expr, Select, SelectItem};
use std::collections::HashMap;

/// The error of a name that a SELECT list gives to an expression, and another column has, too.
pub(super) fn clash(select: &Select) -> Option<SqlError> {
    let mut known: HashMap<String, (&Expr, bool)> = HashMap::new();
    for item in &select.projection {
        let (expr, name, is_given) = match item {
            SelectItem::UnnamedExpr(expr) => match column(expr) {
                Some(name) => (expr, name, false),
                None => continue,
            },
            SelectItem::ExprWithAlias { expr, alias } => {
                let name = key(alias);
                // The name of a column renames nothing.
                let is_given = column(expr).as_ref() != Some(&name);
                (expr, name, is_given)
            }
            _ => continue,
        };
        match known.get(&name) {
            // A name alone may be that of an earlier expression.
            Some((_, true)) if matches!(expr, Expr::Identifier(_)) && !is_given => {}
            Some((first, was_given)) if is_given || *was_given => {
                return Some(SqlError::OutputName {
                    name,
                    first: first.to_string(),
                    second: expr.to_string(),
                });
            }
            _ => _ = known.insert(name, (expr, is_given)),
        }
    }
    None
}

/// The name of a column.
fn column(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(key(name)),
        Expr::CompoundIdentifier(parts) => parts.last().map(key),
        _ => None,
    }
}
