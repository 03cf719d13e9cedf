//! Queries that rewrites of a statement depend on, and their results.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Query, Select, SelectFlavor, SelectItem, SetExpr, TableWithJoins,
};
use std::collections::HashSet;

/// A query that a rewrite of a part depends on.
#[derive(Debug)]
pub(super) enum Question {
    /// The columns of a query. If it cannot be planned, the part stays, and the planner reports the error.
    Columns(Query),
    /// The columns of queries, each with the table that has it. If one cannot be planned, the part stays.
    Tables(Vec<Query>),
    /// The columns of joined tables, and of the tables of subqueries.
    Joined {
        /// Each table; if one cannot be planned, the part stays.
        tables: Vec<Query>,
        /// The tables of each SELECT within subqueries; `None` if they are not needed.
        nested: Vec<Option<Query>>,
    },
    /// The values of a PIVOT without a list.
    Values(ValuesQuery),
}

/// The answer to a [`Question`].
#[derive(Debug)]
pub(super) enum Answer {
    /// The names of the columns; `None` if the query cannot be planned.
    Columns(Option<Vec<String>>),
    /// The names of the columns of each query, with the expressions that select them.
    Tables(Option<Vec<Vec<(String, Expr)>>>),
    Joined {
        /// As above.
        tables: Option<Vec<Vec<(String, Expr)>>>,
        /// The names of the columns; `None` if they are not needed or cannot be planned.
        nested: Vec<Option<HashSet<String>>>,
    },
    Values(Vec<Value>),
}

/// A query for the values of a column.
#[derive(Debug)]
pub(super) struct ValuesQuery {
    /// It returns each value, and its name.
    pub(super) query: Query,
}

/// A value, and the name of its column.
#[derive(Debug)]
pub(super) struct Value {
    pub(super) literal: Expr,
    pub(super) name: String,
}

/// A query of this body alone.
pub(super) fn query_of(body: SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// A query of these columns and tables alone.
pub(super) fn query_over(projection: Vec<SelectItem>, from: Vec<TableWithJoins>) -> Query {
    query_of(SetExpr::Select(Box::new(select_of(projection, from))))
}

/// A SELECT of these columns and tables alone.
pub(super) fn select_of(projection: Vec<SelectItem>, from: Vec<TableWithJoins>) -> Select {
    Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection,
        exclude: None,
        into: None,
        from,
        lateral_views: Vec::new(),
        prewhere: None,
        selection: None,
        connect_by: Vec::new(),
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    }
}
