//! Merged columns in subqueries: `SELECT * FROM t JOIN u USING (k) WHERE EXISTS (SELECT 1 FROM w WHERE w.x =
//! k)`.
//!
//! The name belongs to the tables of the subquery if one of them has such a column, and otherwise to the join
//! around it. So the columns of the subqueries' tables come from queries for them.

use super::ast_parts::key;
use super::join_parts::{constraint, inner};
use super::question::query_over;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, JoinConstraint, Query, Select, SelectItem, TableWithJoins, Value, VisitorMut,
    WildcardAdditionalOptions,
};
use galatea_engine::syntax::visit_mut;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::ops::ControlFlow;

/// The clauses of a SELECT behind its tables.
fn clauses(select: &mut Select) -> Vec<&mut Expr> {
    let mut found: Vec<&mut Expr> = Vec::new();
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            found.push(expr);
        }
    }
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        found.extend(keys);
    }
    let conditions = [&mut select.selection, &mut select.having, &mut select.qualify];
    found.extend(conditions.into_iter().flatten());
    found
}

/// The names in the USING clauses of a SELECT; `None` if a join is NATURAL.
fn names_of(select: &Select) -> Option<HashSet<String>> {
    let mut names = HashSet::new();
    let mut tables: Vec<&TableWithJoins> = select.from.iter().collect();
    while let Some(table) = tables.pop() {
        tables.extend(inner(&table.relation));
        for join in &table.joins {
            tables.extend(inner(&join.relation));
            match constraint(join) {
                Some(JoinConstraint::Natural) => return None,
                Some(JoinConstraint::Using(columns)) => {
                    names.extend(
                        columns
                            .iter()
                            .filter_map(|name| name.0.last()?.as_ident().map(key)),
                    );
                }
                _ => {}
            }
        }
    }
    Some(names)
}

/// For each SELECT in subqueries of the clauses, a query for the columns of its tables; `None` for those that
/// use no name of a merged column.
pub(super) fn tables(select: &Select) -> Vec<Option<Query>> {
    let mut select = select.clone();
    let names = names_of(&select);
    let mut found = Tables {
        names: names.as_ref(),
        queries: Vec::new(),
        visited: Vec::new(),
    };
    for clause in clauses(&mut select) {
        let ControlFlow::Continue(()) = visit_mut(clause, &mut found);
    }
    found.queries
}

struct Tables<'n> {
    names: Option<&'n HashSet<String>>,
    queries: Vec<Option<Query>>,
    /// The number of each SELECT around the visited part, with the query for its columns.
    visited: Vec<(usize, Query)>,
}

impl VisitorMut for Tables<'_> {
    type Break = Infallible;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        let item = match select.from.is_empty() {
            // No columns.
            true => SelectItem::ExprWithAlias {
                expr: Expr::value(Value::Null),
                alias: Ident::with_quote('"', ""),
            },
            false => SelectItem::Wildcard(WildcardAdditionalOptions::default()),
        };
        let query = query_over(vec![item], select.from.clone());
        self.visited.push((self.queries.len(), query));
        self.queries.push(None);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _select: &mut Select) -> ControlFlow<Infallible> {
        self.visited.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        if let Expr::Identifier(name) = expr
            && self.names.is_none_or(|names| names.contains(&key(name)))
        {
            for (number, query) in &self.visited {
                self.queries[*number].get_or_insert_with(|| query.clone());
            }
        }
        ControlFlow::Continue(())
    }
}

/// Replaces the names of merged columns in subqueries. `tables`: the names of the columns of each SELECT's
/// tables; `None` if they are not known.
pub(super) fn replace(
    select: &mut Select,
    merged: &HashMap<String, Expr>,
    tables: &[Option<HashSet<String>>],
) {
    let mut replace = Replace {
        merged,
        tables,
        next: 0,
        visited: Vec::new(),
    };
    for clause in clauses(select) {
        let ControlFlow::Continue(()) = visit_mut(clause, &mut replace);
    }
}

struct Replace<'n> {
    merged: &'n HashMap<String, Expr>,
    tables: &'n [Option<HashSet<String>>],
    /// The number of the next SELECT.
    next: usize,
    /// The columns of each SELECT around the visited part.
    visited: Vec<Option<&'n HashSet<String>>>,
}

impl VisitorMut for Replace<'_> {
    type Break = Infallible;

    fn pre_visit_select(&mut self, _select: &mut Select) -> ControlFlow<Infallible> {
        self.visited
            .push(self.tables.get(self.next).and_then(Option::as_ref));
        self.next += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _select: &mut Select) -> ControlFlow<Infallible> {
        self.visited.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        let Expr::Identifier(name) = expr else {
            return ControlFlow::Continue(());
        };
        let name = key(name);
        let lacks =
            |columns: &Option<&HashSet<String>>| columns.is_some_and(|columns| !columns.contains(&name));
        if !self.visited.is_empty()
            && self.visited.iter().all(lacks)
            && let Some(column) = self.merged.get(&name)
        {
            *expr = column.clone();
        }
        ControlFlow::Continue(())
    }
}
