//! Names of subqueries in FROM that have none: `FROM (SELECT 1 AS a), (SELECT 2 AS a)`.
//!
//! Without a name, the planner shows the tables inside the subquery, so that `g.k` means a column of a table
//! `g` inside it and not of `g` in the enclosing query. As in DuckDB, the subqueries get the names
//! `unnamed_subquery`, `unnamed_subquery2` and so on.

use super::ast_parts::key;
use datafusion::sql::sqlparser::ast::{Ident, Select, TableAlias, TableFactor, TableWithJoins};
use std::collections::HashSet;

/// Calls `each` for the tables of a FROM, from left to right, and for those of joins in parentheses.
fn each_table(from: &mut [TableWithJoins], each: &mut impl FnMut(&mut TableFactor)) {
    for table in from {
        let joined = table.joins.iter_mut().map(|join| &mut join.relation);
        for factor in std::iter::once(&mut table.relation).chain(joined) {
            match factor {
                TableFactor::NestedJoin { table_with_joins, .. } => {
                    each_table(std::slice::from_mut(&mut **table_with_joins), each);
                }
                factor => each(factor),
            }
        }
    }
}

/// The names of the tables of a SELECT.
pub(super) fn names(select: &mut Select) -> HashSet<String> {
    let mut names = HashSet::new();
    each_table(&mut select.from, &mut |factor| names.extend(name_of(factor)));
    names
}

/// Names the subqueries of a SELECT that have no name.
pub(super) fn name(select: &mut Select) {
    let mut taken = names(select);
    each_table(&mut select.from, &mut |factor| {
        let TableFactor::Derived { alias, .. } = factor else {
            return;
        };
        let further = (2_usize..).map(|number| format!("unnamed_subquery{number}"));
        let mut free = std::iter::once("unnamed_subquery".to_owned()).chain(further);
        if alias.is_none()
            && let Some(name) = free.find(|name| taken.insert(name.clone()))
        {
            *alias = Some(TableAlias {
                explicit: true,
                name: Ident::with_quote('"', name),
                columns: Vec::new(),
                at: None,
            });
        }
    });
}

/// The name by which columns of a table are qualified.
fn name_of(factor: &mut TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table {
            alias: Some(alias), ..
        }
        | TableFactor::Derived {
            alias: Some(alias), ..
        } => Some(key(&alias.name)),
        TableFactor::Table { name, .. } => name.0.last().and_then(|part| part.as_ident()).map(key),
        _ => None,
    }
}
