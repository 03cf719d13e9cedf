//! Names of computed columns: `SELECT MAX(a)  + 1` has the column `max(a) + 1`, not the planner's
//! `max(t.a) + Int64(1)`.
//!
//! Names are in lower case unless they are in quotes. A column of a table keeps its name. A subquery in an
//! expression is left as it is, since the names of its columns are not visible.

use super::ast_parts::{called, item_expression, name_as_spelled, without_parentheses};
use super::clause_parts::PIVOT;
use super::column_lists::has_list;
use super::flow_mut;
use super::output_names::is_column;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Query, Select, SelectItem, VisitorMut};
use std::convert::Infallible;
use std::ops::ControlFlow;

/// Names the computed columns of all SELECT lists.
pub(super) fn name(statement: &mut Statement) {
    let ControlFlow::Continue(()) = flow_mut(statement, &mut Names::default());
}

/// A part of the statement that contains the visited one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Expression,
    /// A query of an expression.
    Subquery,
    /// The query of the statement, of WITH, of a table, or within another query's parentheses.
    Query,
}

#[derive(Default)]
struct Names {
    parts: Vec<Part>,
}

impl VisitorMut for Names {
    type Break = Infallible;

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Infallible> {
        self.parts.push(match self.parts.last() {
            Some(Part::Expression) => Part::Subquery,
            _ => Part::Query,
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Infallible> {
        self.parts.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, _expression: &mut Expr) -> ControlFlow<Infallible> {
        self.parts.push(Part::Expression);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _expression: &mut Expr) -> ControlFlow<Infallible> {
        self.parts.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        let items = &mut select.projection;
        // The list of a PIVOT becomes another one, which names its columns.
        let pivots = items
            .iter()
            .filter_map(item_expression)
            .any(|expr| called(expr, PIVOT).is_some());
        if self.parts.last() != Some(&Part::Subquery) && !pivots {
            items
                .iter_mut()
                .filter(|item| is_computed(item))
                .for_each(|item| {
                    name_as_spelled(item);
                });
        }
        ControlFlow::Continue(())
    }
}

/// Whether an item is one column without a name. `unnest` of a struct returns a column for each field.
fn is_computed(item: &SelectItem) -> bool {
    match item {
        SelectItem::UnnamedExpr(expr) => {
            !is_column(without_parentheses(expr)) && called(expr, "unnest").is_none() && !has_list(expr)
        }
        _ => false,
    }
}
