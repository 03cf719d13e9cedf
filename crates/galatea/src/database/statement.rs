//! Statements that change a database.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{SchemaReference, TableReference};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::{DefaultTableSource, provider_as_source};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{DdlStatement, DmlStatement, LogicalPlan, Statement};
use datafusion::prelude::SessionContext;

use super::catalog_file::TableEntry;
use super::change::of_database;
use super::insert::InsertTarget;
use super::{Database, Name, provider};
use crate::changes::{Change, check_name, of_memory};
use crate::create_table;

fn of(state: &SessionState) -> Option<Arc<Database>> {
    state.config().get_extension::<Database>()
}

/// Executes a statement that changes the session, such as CREATE TABLE. In a database its changes are
/// published together when it ends, and none if it fails.
///
/// # Errors
/// Those of the statement; [`DatabaseError`].
pub(crate) async fn execute(ctx: &SessionContext, plan: LogicalPlan) -> Result<DataFrame> {
    let plan = match plan {
        LogicalPlan::Statement(Statement::Execute(_)) => {
            let (state, mut plan) = ctx.execute_logical_plan(plan).await?.into_parts();
            check_name(ctx, &plan).await?;
            if let Some(database) = of(&state) {
                plan = database.refreshed(plan, &state, |reference| in_database(&state, reference))?;
            }
            return Ok(DataFrame::new(state, plan));
        }
        plan => with_targets(&ctx.state(), plan)?,
    };
    let Some(database) = ctx.copied_config().get_extension::<Database>() else {
        return executed(ctx, plan).await;
    };
    match plan {
        LogicalPlan::Ddl(_) => {
            let _turn = database.writer.lock().await;
            database.begin();
            // Dropping the future, as a cancellation does, also takes the changes back.
            let guard = Ends(&database);
            let done = changed(ctx, &database, plan).await;
            std::mem::forget(guard);
            database.end(done.is_ok())?;
            done
        }
        LogicalPlan::Statement(Statement::SetVariable(ref set)) => {
            let (name, value) = (set.variable.clone(), set.value.clone());
            let done = ctx.execute_logical_plan(plan).await?;
            kept_setting(ctx, &name, Some(&value))?;
            Ok(done)
        }
        LogicalPlan::Statement(Statement::ResetVariable(ref reset)) => {
            let name = reset.variable.clone();
            let done = ctx.execute_logical_plan(plan).await?;
            kept_setting(ctx, &name, None)?;
            Ok(done)
        }
        plan => ctx.execute_logical_plan(plan).await,
    }
}

/// Executes a statement on tables, views or schemas. Those of the database are dropped and replaced by name:
/// a view may no longer be planned, or a file may be damaged.
async fn changed(ctx: &SessionContext, database: &Database, plan: LogicalPlan) -> Result<DataFrame> {
    let state = ctx.state();
    let named = |reference: &TableReference| in_database(&state, reference);
    let LogicalPlan::Ddl(statement) = &plan else {
        return ctx.execute_logical_plan(plan).await;
    };
    let done = match statement {
        DdlStatement::DropCatalogSchema(drop) => match schema_name(&state, &drop.name) {
            Some(name) => database.remove_schema(&name, drop.cascade)? || drop.if_exists,
            None => false,
        },
        DdlStatement::DropView(drop) => remove(database, named(&drop.name), true)?,
        DdlStatement::DropTable(drop) => remove(database, named(&drop.name), false)?,
        DdlStatement::CreateView(create) if create.or_replace => {
            remove(database, named(&create.name), true)?;
            false
        }
        DdlStatement::CreateMemoryTable(create) if create.or_replace => {
            remove(database, named(&create.name), false)?;
            false
        }
        _ => false,
    };
    match done {
        true => ctx.read_empty()?.limit(0, Some(0)),
        false => executed(ctx, plan).await,
    }
}

async fn executed(ctx: &SessionContext, plan: LogicalPlan) -> Result<DataFrame> {
    match plan {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => create_table::create(ctx, create).await,
        plan => ctx.execute_logical_plan(plan).await,
    }
}

/// Whether a table has its rows in the database of a session.
pub(crate) fn is_stored(ctx: &SessionContext, table: &TableReference) -> bool {
    let state = ctx.state();
    let entry = of(&state).zip(in_database(&state, table));
    let entry = entry.and_then(|(database, name)| database.entry(&name));
    matches!(entry, Some(TableEntry::Table(_)))
}

/// Gives a table or view of a database another name. Returns whether it is one of a database.
///
/// # Errors
/// [`DatabaseError`].
pub(crate) async fn renamed(
    ctx: &SessionContext,
    table: &TableReference,
    name: &TableReference,
) -> Result<bool> {
    let state = ctx.state();
    let names = in_database(&state, table).zip(in_database(&state, name));
    let Some((database, (table, name))) = of(&state).zip(names) else {
        return Ok(false);
    };
    let _turn = database.writer.lock().await;
    Ok(database.rename(&table, &name)?)
}

/// Removes a view or a table of the database. Returns whether it existed.
fn remove(database: &Database, name: Option<Name>, is_view: bool) -> Result<bool> {
    let Some(name) = name else { return Ok(false) };
    let found = database
        .entry(&name)
        .map(|entry| matches!(entry, TableEntry::View { .. }));
    match found == Some(is_view) {
        true => Ok(database.remove(&name)?),
        false => Ok(false),
    }
}

/// The name of a table in the database; `None` for tables of other catalogs.
fn in_database(state: &SessionState, reference: &TableReference) -> Option<Name> {
    let catalog = &state.config_options().catalog;
    provider::resolved(reference, &catalog.default_catalog, &catalog.default_schema)
}

/// The name of a schema in the database; `None` for schemas of other catalogs.
fn schema_name(state: &SessionState, reference: &SchemaReference) -> Option<String> {
    match reference {
        SchemaReference::Bare { schema } => Some(schema.to_string()),
        SchemaReference::Full { schema, catalog } => {
            let own = **catalog == *state.config_options().catalog.default_catalog;
            own.then(|| schema.to_string())
        }
    }
}

/// Takes the changes of a statement back when it is dropped.
struct Ends<'a>(&'a Database);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        // Without success, nothing is written.
        let _ = self.0.end(false);
    }
}

/// Keeps a setting of the session in its database, or forgets it. Settings of DataFusion's runtime, the
/// default catalog and the emulated device belong to the process.
///
/// # Errors
/// [`DatabaseError`].
pub(crate) fn kept_setting(ctx: &SessionContext, name: &str, value: Option<&str>) -> Result<()> {
    let Some(database) = ctx.copied_config().get_extension::<Database>() else {
        return Ok(());
    };
    let name = name.to_ascii_lowercase();
    let is_kept = (name.starts_with("galatea.") || name.starts_with("datafusion."))
        && !name.starts_with("datafusion.runtime.")
        // The name of the database itself in the session.
        && name != "datafusion.catalog.default_catalog"
        && !(name == "galatea.device" && value.is_some_and(|value| value.eq_ignore_ascii_case("emulated")));
    match is_kept {
        true => Ok(database.keep_setting(&name, value)?),
        false => Ok(()),
    }
}

/// Keeps a macro of the session in its database, or forgets it.
///
/// # Errors
/// [`DatabaseError`].
pub(crate) fn kept_macro(ctx: &SessionContext, name: &str, text: Option<&str>) -> Result<()> {
    match ctx.copied_config().get_extension::<Database>() {
        Some(database) => Ok(database.keep_macro(name, text)?),
        None => Ok(()),
    }
}

/// The plan with a target that writes the rows: for INSERT into tables of a database, and for DELETE, UPDATE
/// and TRUNCATE of tables of a database or in memory.
///
/// # Errors
/// [`ChangeError`](crate::ChangeError).
pub(crate) fn with_targets(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    let may_write = matches!(
        plan,
        LogicalPlan::Dml(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            // PREPARE optimises its plan, after which subqueries of the condition are joins.
            | LogicalPlan::Statement(Statement::Prepare(_))
    );
    if !may_write {
        return Ok(plan);
    }
    let database = of(state);
    let changed = plan.transform_down(|node| match node {
        LogicalPlan::Dml(statement) => dml(state, database.as_ref(), statement).map(Transformed::yes),
        node => Ok(Transformed::no(node)),
    });
    changed.map(|changed| changed.data)
}

/// The statement with its target.
fn dml(
    state: &SessionState,
    database: Option<&Arc<Database>>,
    statement: DmlStatement,
) -> Result<LogicalPlan> {
    let name = in_database(state, &statement.table_name);
    let change = Change::of(&statement);
    let entry = database.zip(name).and_then(|(database, name)| {
        let entry = database.entry(&name)?;
        Some((database, name, entry))
    });
    match (entry, change) {
        (Some((database, name, TableEntry::Table(_))), Some(change)) => {
            let resolve = |reference: &TableReference| in_database(state, reference);
            of_database(database, name, change, &statement, resolve)
        }
        (Some((database, name, TableEntry::Table(_))), None) => Ok(insert(database, name, statement)),
        (_, Some(change)) => {
            let replacing = of_memory(change, &statement)?;
            Ok(replacing.unwrap_or(LogicalPlan::Dml(statement)))
        }
        (_, None) => Ok(LogicalPlan::Dml(statement)),
    }
}

/// An INSERT that writes to a table of the database.
fn insert(database: &Arc<Database>, name: Name, statement: DmlStatement) -> LogicalPlan {
    let Some(source) = statement.target.downcast_ref::<DefaultTableSource>() else {
        return LogicalPlan::Dml(statement);
    };
    if source.table_provider.is::<InsertTarget>() {
        return LogicalPlan::Dml(statement);
    }
    let files = Arc::clone(&source.table_provider);
    let target = provider_as_source(Arc::new(InsertTarget {
        database: Arc::clone(database),
        name,
        files,
    }));
    LogicalPlan::Dml(DmlStatement::new(
        statement.table_name,
        target,
        statement.op,
        statement.input,
    ))
}
