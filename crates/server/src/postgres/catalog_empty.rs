//! Queries that join tables of the catalog without rows.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Join, JoinOperator, Select, SetExpr, TableFactor, TableWithJoins, Visit, Visitor,
};

use super::catalog_columns;

/// Whether a SELECT joins a table without rows, and has no row then.
pub(super) fn has_no_rows(select: &Select) -> bool {
    // An aggregate without groups has a row.
    let has_groups = !matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if groups.is_empty());
    let mut aggregates = Aggregates(false);
    let _ = select.projection.visit(&mut aggregates);
    (has_groups || !aggregates.0) && select.from.iter().any(joins_nothing)
}

/// Finds aggregates that clients use in queries of the catalog.
struct Aggregates(bool);

impl Visitor for Aggregates {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expression {
            let name = function
                .name
                .0
                .last()
                .map(ToString::to_string)
                .unwrap_or_default();
            let name = name.to_ascii_lowercase();
            self.0 |= [
                "count",
                "max",
                "min",
                "sum",
                "avg",
                "array_agg",
                "string_agg",
                "bool_or",
                "bool_and",
            ]
            .contains(&name.as_str());
        }
        ControlFlow::Continue(())
    }
}

fn joins_nothing(table: &TableWithJoins) -> bool {
    let is_inner = |join: &&Join| {
        matches!(
            join.join_operator,
            JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_)
        )
    };
    let keeps_left = |join: &Join| {
        is_inner(&join)
            || matches!(
                join.join_operator,
                JoinOperator::Left(_) | JoinOperator::LeftOuter(_)
            )
    };
    table.joins.iter().all(keeps_left)
        && (is_nothing(&table.relation)
            || table
                .joins
                .iter()
                .filter(is_inner)
                .any(|join| is_nothing(&join.relation)))
}

fn is_nothing(table: &TableFactor) -> bool {
    match table {
        TableFactor::Table { name, args: None, .. } => {
            let name = name.0.last().and_then(|part| part.as_ident());
            name.is_some_and(|name| catalog_columns::is_empty(&name.value))
        }
        TableFactor::Derived { subquery, .. } => match subquery.body.as_ref() {
            SetExpr::Select(select) => has_no_rows(select),
            _ => false,
        },
        TableFactor::NestedJoin { table_with_joins, .. } => joins_nothing(table_with_joins),
        _ => false,
    }
}
