//! Names of subqueries in FROM that have none: `FROM (SELECT 1 AS a), (SELECT 2 AS a)`.
//!
//! Without a name, the planner shows the tables inside the subquery, so that `g.k` means a column of a table
//! `g` inside it and not of `g` in the enclosing query. As in DuckDB, the subqueries get the names
//! `unnamed_subquery`, `unnamed_subquery2` and so on.

use super::ast_parts::key;
use datafusion::sql::sqlparser::ast::{Ident, Select, TableAlias, TableFactor, TableWithJoins};
use std::collections::HashSet;

/// The tables of a FROM, from left to right.
fn factors(from: &mut [TableWithJoins]) -> impl Iterator<Item = &mut TableFactor> {
    from.iter_mut().flat_map(|table| {
        let joined = table.joins.iter_mut().map(|join| &mut join.relation);
        std::iter::once(&mut table.relation).chain(joined)
    })
}

/// The names of the tables of a SELECT.
pub(super) fn names(select: &mut Select) -> HashSet<String> {
    factors(&mut select.from).filter_map(name_of).collect()
}

/// Names the subqueries of a SELECT that have no name.
pub(super) fn name(select: &mut Select) {
    let mut taken = names(select);
    for factor in factors(&mut select.from) {
        let TableFactor::Derived { alias, .. } = factor else {
            continue;
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
    }
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
