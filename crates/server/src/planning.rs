//! Calls of the engine as boxed futures. The compiler checks once, here, that they may move between threads;
//! within the futures of callers, it would repeat that check for each of them, which takes minutes.

use std::sync::Arc;

use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use futures::future::BoxFuture;

/// [`galatea::sql`].
pub(crate) fn sql<'a>(ctx: &'a SessionContext, text: &'a str) -> BoxFuture<'a, Result<DataFrame>> {
    Box::pin(galatea::sql(ctx, text))
}

/// [`galatea::statement`].
pub(crate) fn statement<'a>(text: &'a str, state: &'a SessionState) -> BoxFuture<'a, Result<Statement>> {
    Box::pin(galatea::statement(text, state))
}

/// [`DataFrame::create_physical_plan`].
pub(crate) fn physical(frame: DataFrame) -> BoxFuture<'static, Result<Arc<dyn ExecutionPlan>>> {
    Box::pin(async move { frame.create_physical_plan().await })
}
