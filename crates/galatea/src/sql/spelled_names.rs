//! Names of computed columns: `SELECT MAX(a)  + 1` has the column `max(a) + 1`, not the planner's
//! `max(t.a) + Int64(1)`.
//!
//! Names are in lower case unless they are in quotes. A column of a table keeps its name, and a field of a
//! struct column, `s.f`, has the name of the field. A subquery in an expression is left as it is, since the
//! names of its columns are not visible.

use super::ast_parts::{called, item_expression, key, name_as_spelled, without_parentheses};
use super::clause_parts::PIVOT;
use super::column_lists::has_list;
use super::flow_mut;
use super::join_parts::operands;
use super::output_names::is_column;
use crate::file_paths::table_name;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, TableFactor, TableWithJoins, Value, VisitorMut,
};
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
            if let Some(tables) = tables(&select.from) {
                items.iter_mut().for_each(|item| name_field(item, &tables));
            }
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

/// The names of tables; `None` if one has an unknown name.
fn tables(from: &[TableWithJoins]) -> Option<Vec<String>> {
    from.iter()
        .flat_map(operands)
        .map(|factor| match factor {
            TableFactor::Table {
                alias: Some(alias), ..
            }
            | TableFactor::Derived {
                alias: Some(alias), ..
            }
            | TableFactor::UNNEST {
                alias: Some(alias), ..
            }
            | TableFactor::Function {
                alias: Some(alias), ..
            } => Some(key(&alias.name)),
            TableFactor::Table { name, args: None, .. } => {
                let name = name.0.last()?.as_ident()?;
                match name.quote_style {
                    Some('\'') => table_name(&name.value),
                    _ => Some(key(name)),
                }
            }
            _ => None,
        })
        .collect()
}

/// Gives a field of a struct column the name of the field.
fn name_field(item: &mut SelectItem, tables: &[String]) {
    let SelectItem::UnnamedExpr(expr @ Expr::CompoundIdentifier(_)) = item else {
        return;
    };
    let Expr::CompoundIdentifier(parts) = &*expr else {
        return;
    };
    let is_table = |part: Option<&Ident>| part.is_some_and(|part| tables.contains(&key(part)));
    let before = parts.len().checked_sub(2).and_then(|at| parts.get(at));
    // A column of a table, also with its schema, or a field of such a column.
    let is_field = match is_table(parts.first()) {
        true => parts.len() > 2,
        false => !is_table(before),
    };
    if let (true, Some(field)) = (is_field, parts.last()) {
        let alias = Ident::with_quote('"', key(field));
        let expr = std::mem::replace(expr, Expr::Value(Value::Null.into()));
        *item = SelectItem::ExprWithAlias { expr, alias };
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
