//! Calls of the engine as boxed futures over [`Opaque`] values.

use std::sync::Arc;

use datafusion::common::exec_datafusion_err;
use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use futures::future::BoxFuture;

use crate::opaque::Opaque;

/// The context of a session.
pub(crate) type Context = Opaque<SessionContext>;

/// A planned query or update.
pub(crate) type Frame = Opaque<DataFrame>;

/// The work of a query.
#[derive(Debug)]
pub(crate) enum Work {
    /// A planned query or update.
    Frame(Frame),
    /// A statement that is executed when it is planned.
    Statement(String),
}

/// A running plan.
pub(crate) struct Started {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) rows: SendableRecordBatchStream,
}

/// Plans a statement: [`galatea::sql()`].
pub(crate) fn sql<'a>(ctx: &'a Context, text: &'a str) -> BoxFuture<'a, Result<Frame>> {
    Box::pin(async move { Ok(Opaque::new(galatea::sql(ctx, text).await?)) })
}

/// Parses a statement without reading its tables: [`galatea::unresolved_statement`].
pub(crate) fn statement(ctx: &Context, text: &str) -> Result<Statement> {
    galatea::unresolved_statement(text, &ctx.state())
}

/// Starts a query; `None` for a statement that has been executed, and returns no rows.
pub(crate) fn start(ctx: Context, work: Work) -> BoxFuture<'static, Result<Option<Started>>> {
    Box::pin(async move {
        let frame = match work {
            Work::Frame(frame) => frame,
            Work::Statement(text) => sql(&ctx, &text).await?,
        };
        if is_carried_out(frame.logical_plan()) {
            return Ok(None);
        }
        let task = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await?;
        let rows = execute_stream(Arc::clone(&plan), task)?;
        Ok(Some(Started { plan, rows }))
    })
}

/// Checks that a plan can be executed.
pub(crate) fn check(frame: Frame) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move {
        let frame = DataFrame::clone(&frame);
        frame.create_physical_plan().await.map(drop)
    })
}

/// Whether the plan belongs to a statement that was executed when it was planned, and returns no rows.
fn is_carried_out(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::EmptyRelation(empty) if empty.schema.fields().is_empty())
}

/// A table of a schema of the session, with its name.
pub(crate) type NamedTable = (String, Arc<dyn datafusion::catalog::TableProvider>);

/// The tables of a schema.
pub(crate) fn tables<'a>(
    ctx: &'a Context,
    catalog: &'a str,
    schema: &'a str,
) -> BoxFuture<'a, Result<Vec<NamedTable>>> {
    Box::pin(async move {
        let found = ctx.catalog(catalog).and_then(|catalog| catalog.schema(schema));
        let schema = found.ok_or_else(|| exec_datafusion_err!("no schema {catalog}.{schema}"))?;
        let mut tables = Vec::new();
        for name in schema.table_names() {
            // Another client may have dropped it.
            if let Some(table) = schema.table(&name).await? {
                tables.push((name, table));
            }
        }
        Ok(tables)
    })
}
