//! Aggregates, windows and keys of groups that differ only in casts or in subqueries.
//!
//! The planner's names lack both parts, and a grouping needs different names: `SELECT sum(d), sum(CAST(d AS
//! DOUBLE))`. Here such a cast is `coalesce(CAST(d AS DOUBLE))`, a second one within two calls. The optimizer
//! removes a `coalesce` of one argument, so only the name differs.

use super::ast_parts::{call, each_part, item_expression, key, position, spelled};
use super::expression_keys::{Ignored, expression_key};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, GroupByExpr, Ident, OrderBy, OrderByKind, Query, Select, SelectItem, Value, VisitorMut,
};
use galatea_engine::syntax::{visit_expressions, visit_mut};
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::mem;
use std::ops::ControlFlow;

/// Gives such parts of a SELECT, and of its query's ORDER BY, different names.
pub(super) fn separate(select: &mut Select, order: Option<&mut OrderBy>, state: &SessionState) {
    let mut order = order;
    let computed = computed(select, order.as_deref_mut(), state);
    if computed.len() < 2 || !computed.iter().any(has_parts) {
        return;
    }
    let copies = copies(&computed, state);
    if copies.is_empty() {
        return;
    }
    let mut wrap = Wrap {
        copies: &copies,
        state,
        parts: Vec::new(),
        queries: 0,
    };
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let spelled = spelled(expr);
                let before = expr.clone();
                let ControlFlow::Continue(()) = visit_mut(expr, &mut wrap);
                if *expr != before {
                    let expr = mem::replace(expr, Expr::Value(Value::Null.into()));
                    let alias = Ident::with_quote('"', spelled);
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
            }
            SelectItem::ExprWithAlias { expr, .. } => {
                let ControlFlow::Continue(()) = visit_mut(expr, &mut wrap);
            }
            _ => {}
        }
    }
    for expr in other_clauses(select, order) {
        let ControlFlow::Continue(()) = visit_mut(expr, &mut wrap);
    }
}

/// Whether an expression has a part that the planner's name of it lacks.
fn has_parts(expression: &Expr) -> bool {
    let found = visit_expressions(expression, |part| match part {
        Expr::Cast { .. } | Expr::Subquery(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// The clauses of a SELECT behind its tables that are evaluated over groups.
fn other_clauses<'s>(select: &'s mut Select, order: Option<&'s mut OrderBy>) -> Vec<&'s mut Expr> {
    let mut found: Vec<&mut Expr> = Vec::new();
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        found.extend(keys);
    }
    found.extend(select.having.as_mut());
    found.extend(select.qualify.as_mut());
    if let Some(OrderByKind::Expressions(keys)) = order.map(|order| &mut order.kind) {
        found.extend(keys.iter_mut().map(|key| &mut key.expr));
    }
    found
}

/// The aggregates, windows and keys of groups.
fn computed(select: &mut Select, order: Option<&mut OrderBy>, state: &SessionState) -> Vec<Expr> {
    let mut found = keys_of_groups(select);
    let mut clauses: Vec<Expr> = Vec::new();
    clauses.extend(select.projection.iter().filter_map(item_expression).cloned());
    clauses.extend(other_clauses(select, order).into_iter().map(|expr| expr.clone()));
    for mut expr in clauses {
        // The closure returns no error.
        let _ = each_part(&mut expr, |part| {
            if let Expr::Function(function) = part
                && (function.over.is_some() || is_aggregate(function, state))
            {
                found.push(part.clone());
            }
            ControlFlow::Continue(())
        });
    }
    found
}

pub(super) fn is_aggregate(function: &Function, state: &SessionState) -> bool {
    match function.name.0.as_slice() {
        [part] => part
            .as_ident()
            .is_some_and(|name| state.aggregate_functions().contains_key(&key(name))),
        _ => false,
    }
}

/// The keys of groups, those by position and by name included.
fn keys_of_groups(select: &Select) -> Vec<Expr> {
    let items = || select.projection.iter().filter_map(item_expression);
    let keys = match &select.group_by {
        GroupByExpr::All(_) => return items().cloned().collect(),
        GroupByExpr::Expressions(keys, _) => keys,
    };
    let mut found = Vec::new();
    for part in keys.iter().flat_map(parts_of_key) {
        let named = match part {
            Expr::Value(_) => position(part)
                .and_then(|position| select.projection.get(position - 1))
                .and_then(item_expression),
            Expr::Identifier(name) => select.projection.iter().find_map(|item| match item {
                SelectItem::ExprWithAlias { expr, alias } if key(alias) == key(name) => Some(expr),
                _ => None,
            }),
            _ => None,
        };
        found.extend(named.cloned());
        found.push(part.clone());
    }
    found
}

fn parts_of_key(key: &Expr) -> Vec<&Expr> {
    match key {
        Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) => sets.iter().flatten().collect(),
        key => vec![key],
    }
}

/// The number of calls around each cast and subquery, by its string, in expressions that need them.
fn copies(computed: &[Expr], state: &SessionState) -> HashMap<String, usize> {
    let mut same: HashMap<String, HashMap<String, &Expr>> = HashMap::new();
    for expr in computed {
        let full = expression_key(expr, Ignored::Tables, state);
        let name = expression_key(expr, Ignored::Unnamed, state);
        same.entry(name).or_default().entry(full).or_insert(expr);
    }
    let mut variants: HashMap<String, HashSet<String>> = HashMap::new();
    for expr in same
        .values()
        .filter(|same| same.len() > 1)
        .flat_map(HashMap::values)
    {
        // The closure returns no error.
        let _ = each_part(&mut (*expr).clone(), |part| {
            if matches!(part, Expr::Cast { .. } | Expr::Subquery(_)) {
                let name = expression_key(part, Ignored::Unnamed, state);
                let full = expression_key(part, Ignored::Tables, state);
                variants.entry(name).or_default().insert(full);
            }
            ControlFlow::Continue(())
        });
    }
    let ordered = variants.into_values().flat_map(|variants| {
        let mut ordered: Vec<String> = variants.into_iter().collect();
        ordered.sort();
        (1..)
            .zip(ordered)
            .map(|(count, full)| (full, count))
            .collect::<Vec<_>>()
    });
    ordered.collect()
}

/// Writes the calls around casts and subqueries, outside of other queries.
struct Wrap<'s> {
    copies: &'s HashMap<String, usize>,
    state: &'s SessionState,
    /// The visited parts: whether each is a cast, and the number of calls around it.
    parts: Vec<(bool, usize)>,
    /// The number of queries around the visited part.
    queries: usize,
}

impl VisitorMut for Wrap<'_> {
    type Break = Infallible;

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Infallible> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Infallible> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Infallible> {
        let within = self.parts.last().is_some_and(|(within, _)| *within);
        let is_part = matches!(expression, Expr::Cast { .. } | Expr::Subquery(_));
        let count = match is_part && !within && self.queries == 0 {
            true => self
                .copies
                .get(&expression_key(expression, Ignored::Tables, self.state)),
            false => None,
        };
        let within = is_part || (within && matches!(expression, Expr::Nested(_)));
        self.parts.push((within, count.copied().unwrap_or(0)));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Infallible> {
        let count = self.parts.pop().map_or(0, |(_, count)| count);
        for _ in 0..count {
            let part = mem::replace(expression, Expr::Value(Value::Null.into()));
            *expression = call("coalesce", vec![part]);
        }
        ControlFlow::Continue(())
    }
}
