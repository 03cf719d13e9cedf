//! Columns in the arguments of a macro that the tables of the macro could capture.
//!
//! The arguments replace the parameters in the body. `k` in `f(k)` is a column of the calling query, but in
//! the body `(SELECT max(w) FROM g WHERE g.k = a)` it would be the column of `g`.

use super::ast_parts::{each_part, key};
use super::unnamed_tables;
use datafusion::sql::sqlparser::ast::{Expr, Query, Select, TableFactor, VisitMut, VisitorMut};
use galatea_engine::syntax::visit_mut;
use std::collections::{BTreeMap, HashSet};
use std::mem;
use std::ops::ControlFlow;

/// A parameter that the body of a macro uses in a query, and a column in its value that the tables there may
/// have.
pub(super) fn captured(
    body: &mut impl VisitMut,
    values: &BTreeMap<String, Expr>,
) -> Option<(String, String)> {
    let mut captures = Captures {
        values,
        selects: Vec::new(),
        queries: Vec::new(),
        hidden: Vec::new(),
    };
    visit_mut(body, &mut captures).break_value()
}

/// A visitor of the body of a macro.
struct Captures<'v> {
    values: &'v BTreeMap<String, Expr>,
    /// The names of the tables of each SELECT around the visited part, and before it in the same query;
    /// none without tables.
    selects: Vec<Option<HashSet<String>>>,
    /// The number of these SELECTs before each query around the visited part.
    queries: Vec<usize>,
    /// The SELECTs around each subquery in FROM. The subquery does not see their tables.
    hidden: Vec<Vec<Option<HashSet<String>>>>,
}

impl Captures<'_> {
    /// The first column of a value, outside of its subqueries, that the tables may have.
    fn captures(&self, value: &Expr) -> Option<String> {
        let tables = || self.selects.iter().flatten();
        let mut found = None;
        // The closure returns no error.
        let _ = each_part(&mut value.clone(), |part| {
            let is_captured = match part {
                Expr::Identifier(_) => tables().next().is_some(),
                Expr::CompoundIdentifier(names) => match names.as_slice() {
                    [.., table, _] => tables().any(|tables| tables.contains(&key(table))),
                    _ => false,
                },
                _ => false,
            };
            if is_captured {
                found.get_or_insert_with(|| part.to_string());
            }
            ControlFlow::Continue(())
        });
        found
    }
}

impl VisitorMut for Captures<'_> {
    type Break = (String, String);

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        let has_tables = !select.from.is_empty();
        self.selects
            .push(has_tables.then(|| unnamed_tables::names(select)));
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Self::Break> {
        self.queries.push(self.selects.len());
        ControlFlow::Continue(())
    }

    // ORDER BY and LIMIT see the tables, too.
    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Self::Break> {
        let before = self.queries.pop().unwrap_or_default();
        self.selects.truncate(before);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        if let TableFactor::Derived { lateral: false, .. } = factor {
            self.hidden.push(mem::take(&mut self.selects));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        if let TableFactor::Derived { lateral: false, .. } = factor {
            self.selects = self.hidden.pop().unwrap_or_default();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, part: &mut Expr) -> ControlFlow<Self::Break> {
        let Expr::Identifier(name) = part else {
            return ControlFlow::Continue(());
        };
        let column = self.values.get(&key(name)).and_then(|value| self.captures(value));
        match column {
            Some(column) => ControlFlow::Break((key(name), column)),
            None => ControlFlow::Continue(()),
        }
    }
}
