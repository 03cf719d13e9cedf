//! k-means in SQL.
//!
//! ```sql
//! SELECT * FROM kmeans((SELECT x, y FROM t WHERE z > 0), k => 16, max_iter => 50, init => 'k-means++', seed => 1);
//! SELECT * FROM kmeans_labels((SELECT id, x, y FROM t), k => 16, features => 'x, y');
//! ```
//!
//! `kmeans_assign(point, centroids)` is a scalar function ([`assign`]).
//!
//! DataFusion's table functions accept constants only, so both are planned as relations: the query in the
//! first argument is planned in its scope, CTEs included, and becomes the input of a [`KMeansExec`] when the
//! scan is planned. Its operators are optimised, placed on the device and reported with those of the
//! enclosing query.
//!
//! Rows of the input are read partition by partition into [`Points`](galatea_kmeans::Points). The clustering
//! runs on the session's device if it is usable (in tests, the emulated device), and otherwise on the CPU.
//! Work on other threads stops when the stream is dropped.

mod assign;
mod collect;
mod exec;
mod settings;
mod table;

use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::common::plan_err;
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, FunctionArg, FunctionArgExpr, Ident, Query, TableFactor,
};
use galatea_engine::session::Session;

use settings::Settings;
use table::KMeansTable;

/// The two functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    /// One row per cluster.
    Clusters,
    /// The rows of the query, with labels.
    Labels,
}

impl Function {
    fn name(self) -> &'static str {
        match self {
            Self::Clusters => "kmeans",
            Self::Labels => "kmeans_labels",
        }
    }
}

/// Plans `kmeans(...)` and `kmeans_labels(...)` in a FROM clause.
#[derive(Debug)]
struct KMeansPlanner {
    session: Arc<Session>,
    /// The functions with names that the session does not use.
    functions: Vec<Function>,
}

impl KMeansPlanner {
    /// The function that a relation calls.
    fn called(&self, relation: &TableFactor, context: &dyn RelationPlannerContext) -> Option<Function> {
        let TableFactor::Table {
            name, args: Some(_), ..
        } = relation
        else {
            return None;
        };
        let [part] = name.0.as_slice() else {
            return None;
        };
        let called = context.normalize_ident(part.as_ident()?.clone());
        let mut functions = self.functions.iter();
        functions.find(|function| function.name() == called).copied()
    }
}

/// Arguments with their names.
type NamedArguments = Vec<(Ident, SqlExpr)>;

/// The query and the named arguments of a call.
fn arguments(function: Function, args: Vec<FunctionArg>) -> Result<(Box<Query>, NamedArguments)> {
    let name = function.name();
    let mut query = None;
    let mut named = Vec::new();
    for arg in args {
        match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(SqlExpr::Subquery(subquery))) if query.is_none() => {
                query = Some(subquery);
            }
            FunctionArg::Named {
                name,
                arg: FunctionArgExpr::Expr(value),
                ..
            }
            | FunctionArg::ExprNamed {
                name: SqlExpr::Identifier(name),
                arg: FunctionArgExpr::Expr(value),
                ..
            } => named.push((name, value)),
            other => {
                return plan_err!(
                    "{name} does not take the argument {other}\nhint: {name}((SELECT x, y FROM t), k => 8): a query in parentheses, then settings by name"
                );
            }
        }
    }
    match query {
        Some(query) => Ok((query, named)),
        None => plan_err!(
            "{name} needs a query to cluster the rows of\nhint: {name}((SELECT x, y FROM t), k => 8)"
        ),
    }
}

impl RelationPlanner for KMeansPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let Some(function) = self.called(&relation, context) else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let TableFactor::Table {
            alias,
            args: Some(args),
            ..
        } = relation
        else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let (query, named) = arguments(function, args.args)?;
        let input = context.plan(TableFactor::Derived {
            lateral: false,
            subquery: query,
            alias: None,
            sample: None,
        })?;
        let settings = Settings::parse(function, named, context)?;
        let table = KMeansTable::new(function, input, settings, Arc::clone(&self.session))?;
        let source = provider_as_source(Arc::new(table));
        let plan = LogicalPlanBuilder::scan(TableReference::bare(function.name()), source, None)?.build()?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(
            plan, alias,
        ))))
    }
}

/// Adds the functions to a session, unless their names are used.
pub(crate) fn register(state: &mut SessionState, session: &Arc<Session>) {
    assign::register(state);
    let free = |function: &Function| !state.table_functions().contains_key(function.name());
    let functions = [Function::Clusters, Function::Labels]
        .into_iter()
        .filter(free)
        .collect();
    let planner = KMeansPlanner {
        session: Arc::clone(session),
        functions,
    };
    if let Err(error) = state.register_relation_planner(Arc::new(planner)) {
        tracing::warn!(%error, "kmeans() could not be registered");
    }
}
