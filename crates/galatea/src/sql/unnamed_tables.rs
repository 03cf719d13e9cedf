//! Subqueries without a name in one FROM, with columns of one name: `FROM (SELECT 1 AS a), (SELECT 2 AS a)`.
//!
//! No table distinguishes these columns, so the planner refuses them. As in DuckDB, the subqueries get the
//! names `unnamed_subquery`, `unnamed_subquery2` and so on.

use super::ast_parts::key;
use super::question::{Answer, Question, query_over};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Select, SelectItem, TableAlias, TableFactor, TableWithJoins, WildcardAdditionalOptions,
};
use std::collections::{HashMap, HashSet};

/// The tables of a FROM, from left to right.
fn factors(from: &mut [TableWithJoins]) -> impl Iterator<Item = &mut TableFactor> {
    from.iter_mut().flat_map(|table| {
        let joined = table.joins.iter_mut().map(|join| &mut join.relation);
        std::iter::once(&mut table.relation).chain(joined)
    })
}

fn is_unnamed(factor: &TableFactor) -> bool {
    matches!(
        factor,
        TableFactor::Derived {
            alias: None,
            lateral: false,
            ..
        }
    )
}

/// The columns of such subqueries, if there are several.
pub(super) fn question(select: &Select) -> Option<Question> {
    let mut from = select.from.clone();
    let unnamed = factors(&mut from).filter(|factor| is_unnamed(factor));
    let queries = unnamed.map(|factor| {
        let all = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
        let table = TableWithJoins {
            relation: factor.clone(),
            joins: Vec::new(),
        };
        query_over(all, vec![table])
    });
    let queries: Vec<_> = queries.collect();
    (queries.len() > 1).then_some(Question::Tables(queries))
}

/// Names the subqueries that share the name of a column.
pub(super) fn rewrite(select: &mut Select, answer: Answer) {
    let Answer::Tables(Some(tables)) = answer else {
        return;
    };
    let mut count: HashMap<&str, usize> = HashMap::new();
    let without_table = |(name, expr): &'_ (String, Expr)| match expr {
        Expr::Identifier(_) => Some(name.clone()),
        _ => None,
    };
    let names: Vec<HashSet<String>> = tables
        .iter()
        .map(|columns| columns.iter().filter_map(without_table).collect())
        .collect();
    for name in names.iter().flatten() {
        *count.entry(name).or_default() += 1;
    }
    let mut taken: HashSet<String> = factors(&mut select.from).filter_map(name).collect();
    let unnamed = factors(&mut select.from).filter(|factor| is_unnamed(factor));
    for (factor, names) in unnamed.zip(&names) {
        if !names.iter().any(|name| count[name.as_str()] > 1) {
            continue;
        }
        let further = (2_usize..).map(|number| format!("unnamed_subquery{number}"));
        let mut free = std::iter::once("unnamed_subquery".to_owned()).chain(further);
        if let TableFactor::Derived { alias, .. } = factor
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
fn name(factor: &mut TableFactor) -> Option<String> {
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
