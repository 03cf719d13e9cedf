//! UPDATE ... FROM and DELETE ... USING, as conditions and values with subqueries.
//!
//! ```text
//! UPDATE t SET b = u.x FROM u WHERE t.k = u.k
//! UPDATE t SET b = (SELECT u.x FROM u WHERE t.k = u.k) WHERE EXISTS (SELECT 1 FROM u WHERE t.k = u.k)
//! DELETE FROM t USING u WHERE t.k = u.k
//! DELETE FROM t WHERE EXISTS (SELECT 1 FROM u WHERE t.k = u.k)
//! ```
//!
//! A row of `t` with several matches is an error of UPDATE, as in MERGE: its new values would be arbitrary.

use std::collections::HashSet;
use std::mem;
use std::ops::ControlFlow;

use super::SqlError;
use super::ast_parts::key;
use super::join_parts::operands;
use super::question::query_over;
use super::resolve::column_names;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, Delete, Expr, FromTable, Ident, Query, SelectItem, SetExpr, TableFactor, TableWithJoins,
    UpdateTableFromKind, Value, VisitorMut, WildcardAdditionalOptions,
};
use galatea_engine::syntax::{visit_expressions_mut, visit_mut};

/// Rewrites such a statement.
///
/// # Errors
/// A column without a table that is in both; those of the planner.
pub(super) async fn resolve(statement: &mut Statement, state: &SessionState) -> Result<()> {
    match statement {
        Statement::Explain(explain) => Box::pin(resolve(&mut explain.statement, state)).await,
        Statement::Statement(statement) => match statement.as_mut() {
            ast::Statement::Update(update) => {
                let Some(UpdateTableFromKind::AfterSet(tables) | UpdateTableFromKind::BeforeSet(tables)) =
                    update.from.take()
                else {
                    return Ok(());
                };
                let sources = Sources::of(&update.table, tables, "UPDATE ... FROM", state).await?;
                let mut condition = update.selection.take();
                if let Some(condition) = &mut condition {
                    sources.qualify(condition)?;
                }
                for assignment in &mut update.assignments {
                    if sources.qualify(&mut assignment.value)? {
                        let value = mem::replace(&mut assignment.value, Expr::Value(Value::Null.into()));
                        let rows = sources.rows(value, condition.clone());
                        assignment.value = Expr::Subquery(Box::new(rows));
                    }
                }
                update.selection = Some(sources.exists(condition));
                Ok(())
            }
            ast::Statement::Delete(delete) => {
                without_alias(delete);
                let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
                let ([target], Some(tables)) = (from.as_slice(), delete.using.take()) else {
                    return Ok(());
                };
                let sources = Sources::of(target, tables, "DELETE ... USING", state).await?;
                let mut condition = delete.selection.take();
                if let Some(condition) = &mut condition {
                    sources.qualify(condition)?;
                }
                delete.selection = Some(sources.exists(condition));
                Ok(())
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Replaces another name of the changed table by its own, since the planner ignores the other one.
fn without_alias(delete: &mut Delete) {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &mut delete.from;
    let [
        TableWithJoins {
            relation: TableFactor::Table { name, alias, .. },
            ..
        },
    ] = from.as_mut_slice()
    else {
        return;
    };
    let own = name.0.last().and_then(|part| part.as_ident()).cloned();
    let (Some(own), Some(alias)) = (own, alias.take()) else {
        return;
    };
    let other = key(&alias.name);
    let Some(condition) = &mut delete.selection else {
        return;
    };
    let _ = visit_expressions_mut(condition, |part| {
        if let Expr::CompoundIdentifier(parts) = part
            && parts.first().is_some_and(|table| key(table) == other)
        {
            parts[0] = own.clone();
        }
        ControlFlow::<()>::Continue(())
    });
}

/// The tables that a statement reads beside the one that it changes.
struct Sources {
    tables: Vec<TableWithJoins>,
    /// The names of their columns.
    columns: HashSet<String>,
    /// The name of the changed table in the statement, and the names of its columns.
    target: Ident,
    target_columns: HashSet<String>,
    clause: &'static str,
}

impl Sources {
    async fn of(
        target: &TableWithJoins,
        tables: Vec<TableWithJoins>,
        clause: &'static str,
        state: &SessionState,
    ) -> Result<Self> {
        let form = "name the changed table alone after UPDATE or DELETE FROM";
        let problem = || SqlError::clause(clause, "does not change a table", form);
        let name = named(&target.relation).ok_or_else(problem)?.clone();
        let is_target = |other: &Ident| key(other) == key(&name);
        if tables.iter().flat_map(operands).filter_map(named).any(is_target) {
            let problem = "reads the changed table under its own name";
            let form = "give it another name, as in FROM t AS u and USING t AS u";
            return Err(SqlError::clause(clause, problem, form).into());
        }
        let all = |from: Vec<TableWithJoins>| {
            let columns = SelectItem::Wildcard(WildcardAdditionalOptions::default());
            column_names(query_over(vec![columns], from), state)
        };
        let target_columns = all(vec![target.clone()]).await?;
        Ok(Self {
            columns: all(tables.clone()).await?,
            tables,
            target: name,
            target_columns,
            clause,
        })
    }

    /// Adds the name of the changed table to its columns in an expression that moves into a subquery. Returns
    /// whether the expression reads other columns, or has subqueries.
    fn qualify(&self, expression: &mut Expr) -> Result<bool> {
        let mut visit = Qualify {
            sources: self,
            depth: 0,
            reads_sources: false,
        };
        match visit_mut(expression, &mut visit) {
            ControlFlow::Break(error) => Err((*error).into()),
            ControlFlow::Continue(()) => Ok(visit.reads_sources),
        }
    }

    /// A value for each row of the tables that fulfils the condition.
    fn rows(&self, value: Expr, condition: Option<Expr>) -> Query {
        let mut rows = query_over(vec![SelectItem::UnnamedExpr(value)], self.tables.clone());
        if let SetExpr::Select(select) = rows.body.as_mut() {
            select.selection = condition;
        }
        rows
    }

    /// Whether the tables have such a row.
    fn exists(&self, condition: Option<Expr>) -> Expr {
        let one = Expr::Value(Value::Number("1".to_owned(), false).into());
        Expr::Exists {
            subquery: Box::new(self.rows(one, condition)),
            negated: false,
        }
    }
}

/// The name of a table in a statement.
fn named(table: &TableFactor) -> Option<&Ident> {
    match table {
        TableFactor::Table {
            alias: Some(alias), ..
        }
        | TableFactor::Derived {
            alias: Some(alias), ..
        } => Some(&alias.name),
        TableFactor::Table { name, .. } => name.0.last()?.as_ident(),
        _ => None,
    }
}

struct Qualify<'a> {
    sources: &'a Sources,
    /// Number of subqueries around the visited part.
    depth: usize,
    reads_sources: bool,
}

impl VisitorMut for Qualify<'_> {
    type Break = Box<SqlError>;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth += 1;
        self.reads_sources = true;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Self::Break> {
        let sources = self.sources;
        match expression {
            Expr::Identifier(column) if self.depth == 0 => {
                let name = key(column);
                match (
                    sources.target_columns.contains(&name),
                    sources.columns.contains(&name),
                ) {
                    (true, true) => {
                        let problem = format!(
                            "reads the column {column}, which is in {} and in another table",
                            sources.target
                        );
                        let form = "write the name of the table before it, as in t.b";
                        return ControlFlow::Break(Box::new(SqlError::Clause {
                            clause: sources.clause,
                            problem,
                            form,
                        }));
                    }
                    (true, false) => {
                        let parts = vec![sources.target.clone(), column.clone()];
                        *expression = Expr::CompoundIdentifier(parts);
                    }
                    (false, _) => self.reads_sources = true,
                }
            }
            Expr::CompoundIdentifier(parts) if self.depth == 0 => {
                let table = parts.len().checked_sub(2).map(|at| key(&parts[at]));
                self.reads_sources |= table != Some(key(&sources.target));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
