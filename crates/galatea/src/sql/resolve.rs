//! Rewrites that depend on the columns or on the rows of a statement's tables.
//!
//! A statement is visited from the inside out. The first part that needs a table's columns has a
//! [`Question`]: a query, with the tables of all enclosing WITH clauses that the part can name. The query is
//! planned, or executed for its rows, the part is rewritten, and the visit starts again behind that part.

use super::ast_parts::column;
use super::question::{Answer, Question, query_of};
use super::{
    aliases, column_lists, distinct_order, flow_mut, merged_columns, order_all, ordinals, output_names,
    pivot, unnamed_parts,
};
use datafusion::common::DFSchema;
use datafusion::dataframe::DataFrame;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, Cte, Query, SetExpr, TableFactor, VisitorMut, With};
use galatea_base::stack::{for_levels, poll_for_levels};
use galatea_engine::plans::{MAX_LEVELS, with_stack_for};
use std::collections::HashSet;
use std::mem;
use std::ops::ControlFlow;

/// Levels of stack that a rewrite may take beside the visit of the statement.
const SPARE: usize = 4;

/// Why a visit ended early. Each frame of the visit has room for it, so it is small.
enum Stop {
    Ask(Box<Question>),
    /// A part was rewritten.
    Again,
    Error(Box<DataFusionError>),
}

/// Rewrites all such parts.
///
/// # Errors
/// Those of the queries, and of the rewrites.
pub(super) async fn resolve(text: &str, statement: &mut Statement, state: &SessionState) -> Result<()> {
    let (mut done, mut answer) = (0, None);
    let levels = text.len().min(MAX_LEVELS);
    loop {
        let visited = for_levels(SPARE + levels, || {
            with_stack_for(text, || {
                let mut visit = Visit {
                    state,
                    levels,
                    frames: Vec::new(),
                    outer: is_query(statement),
                    at: 0,
                    done,
                    answer: answer.take(),
                };
                (flow_mut(statement, &mut visit), visit.done)
            })
        });
        let flow = visited.0;
        done = visited.1;
        answer = match flow {
            ControlFlow::Continue(()) => return Ok(()),
            ControlFlow::Break(Stop::Error(error)) => return Err(*error),
            ControlFlow::Break(Stop::Again) => None,
            ControlFlow::Break(Stop::Ask(question)) => {
                Some(poll_for_levels(levels, Box::pin(answered(*question, state))).await?)
            }
        };
    }
}

/// Whether the columns of a statement are returned, and not those of a table or view.
fn is_query(statement: &Statement) -> bool {
    match statement {
        Statement::Statement(statement) => matches!(statement.as_ref(), ast::Statement::Query(_)),
        Statement::Explain(explain) => is_query(&explain.statement),
        Statement::CopyTo(_) | Statement::CreateExternalTable(_) | Statement::Reset(_) => true,
    }
}

async fn answered(question: Question, state: &SessionState) -> Result<Answer> {
    match question {
        Question::Columns(query) => {
            let plan = planned(query, state).await;
            let names = plan.map(|plan| names(plan.schema()));
            Ok(Answer::Columns(names.ok()))
        }
        Question::Tables(queries) => Ok(Answer::Tables(columns(queries, state).await)),
        Question::Joined { tables, nested } => {
            let tables = columns(tables, state).await;
            let mut sets = Vec::new();
            for query in nested {
                let plan = match query {
                    Some(query) => planned(query, state).await.ok(),
                    None => None,
                };
                sets.push(plan.map(|plan| names(plan.schema()).into_iter().collect()));
            }
            Ok(Answer::Joined { tables, nested: sets })
        }
        Question::Values(values) => {
            let plan = planned(values.query.clone(), state).await?;
            let rows = DataFrame::new(state.clone(), plan).collect().await?;
            Ok(Answer::Values(values.read(&rows)?))
        }
    }
}

/// The columns of queries, with the expressions that select them; `None` if one cannot be planned.
async fn columns(queries: Vec<Query>, state: &SessionState) -> Option<Vec<Vec<(String, ast::Expr)>>> {
    let mut tables = Vec::new();
    for query in queries {
        let plan = planned(query, state).await.ok()?;
        let columns = plan.schema().iter();
        let columns = columns.map(|(table, field)| (field.name().clone(), column(table, field.name())));
        tables.push(columns.collect());
    }
    Some(tables)
}

async fn planned(query: Query, state: &SessionState) -> Result<datafusion::logical_expr::LogicalPlan> {
    let statement = ast::Statement::Query(Box::new(query));
    state
        .statement_to_plan(Statement::Statement(Box::new(statement)))
        .await
}

/// The names of the columns of a query.
///
/// # Errors
/// Those of the planner.
pub(super) async fn column_names(query: Query, state: &SessionState) -> Result<HashSet<String>> {
    let plan = planned(query, state).await?;
    Ok(names(plan.schema()).into_iter().collect())
}

fn names(schema: &DFSchema) -> Vec<String> {
    schema.fields().iter().map(|field| field.name().clone()).collect()
}

/// The WITH clause of an enclosing query.
struct Frame {
    with: Option<With>,
    /// The addresses of its queries, to recognise them when they are visited.
    queries: Vec<usize>,
    /// The number of its queries that the visited part can name.
    visible: usize,
    /// Whether tables distinguish the columns of the query.
    outer: bool,
}

struct Visit<'s> {
    state: &'s SessionState,
    /// The most levels of an expression, whose copies take stack for each.
    levels: usize,
    frames: Vec<Frame>,
    /// Whether the tables of the next visited query distinguish its columns: of the outermost query, and of a
    /// table without a name.
    outer: bool,
    /// The number of parts before, and of those that are done.
    at: usize,
    done: usize,
    answer: Option<Answer>,
}

impl Visit<'_> {
    /// Returns the question of a part, or rewrites the part with the answer.
    fn part(
        &mut self,
        question: Option<Question>,
        rewrite: impl FnOnce(&SessionState, Answer) -> Result<()>,
    ) -> ControlFlow<Stop> {
        let at = self.at;
        self.at += 1;
        if at < self.done {
            return ControlFlow::Continue(());
        }
        if let Some(answer) = self.answer.take() {
            self.done = at + 1;
            return ControlFlow::Break(match rewrite(self.state, answer) {
                Ok(()) => Stop::Again,
                Err(error) => Stop::Error(Box::new(error)),
            });
        }
        self.done = at;
        match question {
            Some(Question::Columns(query)) => {
                let question = Question::Columns(self.in_scope(query));
                ControlFlow::Break(Stop::Ask(Box::new(question)))
            }
            Some(Question::Tables(queries)) => {
                let queries = queries.into_iter().map(|query| self.in_scope(query));
                let question = Question::Tables(queries.collect());
                ControlFlow::Break(Stop::Ask(Box::new(question)))
            }
            Some(Question::Joined { tables, nested }) => {
                let tables = tables.into_iter().map(|query| self.in_scope(query)).collect();
                let nested = nested
                    .into_iter()
                    .map(|query| query.map(|query| self.in_scope(query)));
                let nested = nested.collect();
                ControlFlow::Break(Stop::Ask(Box::new(Question::Joined { tables, nested })))
            }
            Some(Question::Values(mut values)) => {
                values.query = self.in_scope(values.query);
                ControlFlow::Break(Stop::Ask(Box::new(Question::Values(values))))
            }
            None => {
                self.done = at + 1;
                ControlFlow::Continue(())
            }
        }
    }

    /// Rewrites the SELECTs of a query.
    fn selects(&mut self, query: &mut Query) -> ControlFlow<Stop> {
        let mut number = 0;
        while let Some((select, order)) = merged_columns::with_order(query, number) {
            let question = column_lists::question(select);
            self.part(question, |_, answer| column_lists::rewrite(select, answer))?;
            let question = merged_columns::question(select);
            self.part(question, |_, answer| {
                merged_columns::rewrite(select, order, answer)
            })?;
            let question = aliases::question(select);
            self.part(question, |state, answer| aliases::rewrite(select, answer, state))?;
            self.names(query, number)?;
            number += 1;
        }
        ControlFlow::Continue(())
    }

    /// Gives the columns of a SELECT, and its aggregates, different names.
    fn names(&mut self, query: &mut Query, number: usize) -> ControlFlow<Stop> {
        let outer = self.frames.last().is_some_and(|frame| frame.outer);
        let Some((select, mut order)) = merged_columns::with_order(query, number) else {
            return ControlFlow::Continue(());
        };
        let question = output_names::question(select, outer);
        if question.is_none() {
            output_names::separate(select, outer, Vec::new(), self.state);
        }
        self.part(question, |state, answer| {
            output_names::rewrite(select, outer, answer, state);
            Ok(())
        })?;
        unnamed_parts::separate(select, order.as_deref_mut(), self.state);
        ordinals::by_names(select, order.as_deref_mut(), self.state);
        distinct_order::by_names(select, order, self.state);
        ControlFlow::Continue(())
    }

    /// The query, within the WITH clauses of the enclosing queries.
    fn in_scope(&self, query: Query) -> Query {
        let mut query = query;
        for frame in self.frames.iter().rev() {
            let Some(with) = &frame.with else { continue };
            let tables: Vec<Cte> = with.cte_tables[..frame.visible].to_vec();
            if tables.is_empty() {
                continue;
            }
            let with = With {
                cte_tables: tables,
                ..with.clone()
            };
            query = match query.with {
                None => Query {
                    with: Some(with),
                    ..query
                },
                Some(_) => Query {
                    with: Some(with),
                    ..query_of(SetExpr::Query(Box::new(query)))
                },
            };
        }
        query
    }
}

impl VisitorMut for Visit<'_> {
    type Break = Stop;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Stop> {
        let address = std::ptr::from_ref::<Query>(query).addr();
        if let Some(frame) = self.frames.last_mut()
            && let Some(at) = frame.queries.iter().position(|known| *known == address)
        {
            frame.visible = at;
        }
        let queries = query.with.iter().flat_map(|with| &with.cte_tables);
        let queries = queries.map(|table| std::ptr::from_ref::<Query>(&table.query).addr());
        self.frames.push(Frame {
            queries: queries.collect(),
            with: query.with.clone(),
            visible: 0,
            outer: mem::take(&mut self.outer),
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Stop> {
        let address = std::ptr::from_ref::<Query>(query).addr();
        for_levels(SPARE + self.levels, || {
            self.selects(query)?;
            let question = order_all::question(query);
            self.part(question, |_, answer| order_all::rewrite(query, answer))
        })?;
        self.frames.pop();
        if let Some(frame) = self.frames.last_mut()
            && let Some(at) = frame.queries.iter().position(|known| *known == address)
        {
            frame.visible = at + 1;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Stop> {
        self.outer = matches!(factor, TableFactor::Derived { alias: None, .. });
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Stop> {
        if !matches!(factor, TableFactor::Pivot { .. }) {
            return ControlFlow::Continue(());
        }
        for_levels(SPARE, || {
            // One column at a time: a part for each.
            for column in 0..pivot::columns(factor) {
                let question = pivot::question(factor, column);
                self.part(question, |_, answer| pivot::rewrite(factor, column, answer))?;
            }
            ControlFlow::Continue(())
        })
    }
}
