//! One SQL statement in, a [`DataFrame`] out.

use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use galatea_engine::plans::PlanCache;

use crate::layout::ConflictLayoutStatement;

/// Plans one SQL statement: as [`SessionContext::sql`] does, and `ALTER TABLE ... SET (conflict_layout ...)`,
/// which is carried out at once.
///
/// A query whose text was asked before is not parsed again, as long as its names and functions mean the same
/// (`galatea.plan_cache` bounds the texts that are remembered, too). Its logical plan is one node, and its
/// columns have their final types.
///
/// | option | values | meaning |
/// | --- | --- | --- |
/// | `conflict_layout` | `'auto'`, `'writes'`, `'reads'`, `'values'`, `'none'` | every column of the table that can have a layout: for atomics, for reads, against value conflicts only, or none; auto is writes, but columns of at most 256 values stay one byte a row unless more copies save more than a second byte costs |
/// | `conflict_layout.<column>` | the same | one column; an error if it cannot have the layout |
/// | `conflict_window` | a whole number, 16 by default | accesses of a block before the present one whose copies are not used again |
/// | `conflict_budget` | a number from 1 on | copies per value, on average; by default as many as fit 64 KiB of 8-byte slots, for auto as said there |
///
/// The result has a row per column: its layout, the size of the table with copies, and mean rounds of an
/// access to shared memory before and after. Tables of the store and files can be altered; the layout of
/// files is this session's, they are not rewritten.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// let session = galatea::session().with_emulated_device(galatea::EmulatorOptions::default());
/// let ctx = session.with_setting("galatea.device", "emulated").build()?;
/// galatea::sql(&ctx, "CREATE TABLE t AS SELECT value % 7 AS k FROM generate_series(1, 10000)").await?.collect().await?;
/// let changed = galatea::sql(&ctx, "ALTER TABLE t SET (conflict_layout.k = 'writes')").await?.collect().await?;
/// assert_eq!(changed[0].num_rows(), 1);
///
/// let sevens = "SELECT k, count(*) FROM t GROUP BY k";
/// for _ in 0..2 {
///     assert_eq!(galatea::sql(&ctx, sevens).await?.count().await?, 7);
/// }
/// assert_eq!(galatea::plan_statistics(&ctx).expect("a Galatea session").known, 1);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// DataFusion's; [`ConflictLayoutError`](crate::ConflictLayoutError) for unknown tables, columns and values,
/// and [`galatea_store::StoreError::NoLayout`] for a named column that cannot have the layout.
pub async fn sql(ctx: &SessionContext, text: &str) -> Result<DataFrame> {
    let state = ctx.state();
    if let Some(statement) = ConflictLayoutStatement::parse(&state.config_options().sql_parser, text)? {
        return statement.execute(ctx).await;
    }
    match state.config().get_extension::<PlanCache>() {
        Some(plans) => {
            let plan = plans.statement(text, &state).await?;
            match plan {
                // They change the session.
                LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => ctx.execute_logical_plan(plan).await,
                // As that does, with the state that is there: a copy of one takes as long as all else here.
                plan => Ok(DataFrame::new(state, plan)),
            }
        }
        None => ctx.sql(text).await,
    }
}
