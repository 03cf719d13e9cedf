//! `SELECT DISTINCT abs(a) FROM t ORDER BY abs(a)`: expressions of the SELECT list in the order of its rows.
//!
//! The planner orders distinct rows by the names of their columns alone. So each expression in ORDER BY that
//! the list has, also as a part of another one, becomes the name of its column.

use super::ast_parts::{key, name_as_spelled};
use super::expression_keys::{Ignored, expression_key};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Ident, OrderBy, OrderByKind, Query, Select, SelectItem, VisitorMut,
};
use galatea_engine::syntax::visit_mut;
use std::convert::Infallible;
use std::ops::ControlFlow;

/// Rewrites the ORDER BY of a SELECT DISTINCT.
pub(super) fn by_names(select: &mut Select, order: Option<&mut OrderBy>, state: &SessionState) {
    if !matches!(select.distinct, Some(Distinct::Distinct)) {
        return;
    }
    let Some(OrderByKind::Expressions(keys)) = order.map(|order| &mut order.kind) else {
        return;
    };
    let mut names = Names {
        columns: select
            .projection
            .iter()
            .enumerate()
            .filter_map(|(at, item)| Column::of(at, item, state))
            .collect(),
        used: Vec::new(),
        queries: 0,
        state,
    };
    for key in keys {
        let ControlFlow::Continue(()) = visit_mut(&mut key.expr, &mut names);
    }
    for at in names.used {
        name_as_spelled(&mut select.projection[at]);
    }
}

/// A computed or renamed column of the list.
struct Column {
    at: usize,
    name: Ident,
    /// Its expression, with the tables of columns and without.
    with_tables: String,
    expression: String,
}

impl Column {
    fn of(at: usize, item: &SelectItem, state: &SessionState) -> Option<Self> {
        let (expr, name) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, Ident::with_quote('"', expr.to_string())),
            SelectItem::ExprWithAlias { expr, alias } => (expr, alias.clone()),
            _ => return None,
        };
        let is_column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        let is_same = is_column && matches!(item, SelectItem::UnnamedExpr(_));
        (!is_same && !matches!(expr, Expr::Value(_))).then(|| Self {
            at,
            name,
            with_tables: expression_key(expr, Ignored::Nothing, state),
            expression: expression_key(expr, Ignored::Tables, state),
        })
    }
}

struct Names<'s> {
    columns: Vec<Column>,
    /// The positions of the columns that the order names.
    used: Vec<usize>,
    /// The number of queries around the visited part.
    queries: usize,
    state: &'s SessionState,
}

impl Names<'_> {
    /// The column of an expression.
    fn find(&self, expr: &Expr) -> Option<&Column> {
        if let Expr::Identifier(name) = expr
            && self.columns.iter().any(|column| key(&column.name) == key(name))
        {
            return None;
        }
        let with_tables = expression_key(expr, Ignored::Nothing, self.state);
        let same = self
            .columns
            .iter()
            .find(|column| column.with_tables == with_tables);
        same.or_else(|| {
            let expression = expression_key(expr, Ignored::Tables, self.state);
            let mut like = self
                .columns
                .iter()
                .filter(|column| column.expression == expression);
            like.next().filter(|_| like.next().is_none())
        })
    }
}

impl VisitorMut for Names<'_> {
    type Break = Infallible;

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Infallible> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Infallible> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        if self.queries > 0 || matches!(expr, Expr::Value(_)) {
            return ControlFlow::Continue(());
        }
        if let Some(column) = self.find(expr) {
            let (at, name) = (column.at, column.name.clone());
            self.used.push(at);
            *expr = Expr::Identifier(name);
        }
        ControlFlow::Continue(())
    }
}
