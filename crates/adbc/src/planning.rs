//! Statements to plans, and plans to batches.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use futures::future::BoxFuture;
use galatea::{BoundStatement, Placeholders, SessionStatement, changed_rows, is_update};

/// A planned query or update, or the result of a statement that has been executed.
pub(crate) struct Planned {
    pub(crate) frame: DataFrame,
    /// Whether it changes or writes rows. Its result is their number.
    pub(crate) is_update: bool,
}

/// Plans a statement. Queries and updates run when their frame is executed; all other statements run here.
///
/// # Errors
/// Those of [`galatea::sql()`].
pub(crate) fn plan<'a>(
    ctx: &'a SessionContext,
    statement: &'a BoundStatement<'a>,
) -> BoxFuture<'a, Result<Planned>> {
    Box::pin(async move {
        if statement.values.is_empty() {
            let frame = galatea::sql(ctx, &statement.text).await?;
            let is_update = is_update(frame.logical_plan());
            return Ok(Planned { frame, is_update });
        }
        let plan = statement.plan(&ctx.state()).await?;
        let is_update = is_update(&plan);
        let frame = galatea::execute(ctx, plan).await?;
        Ok(Planned { frame, is_update })
    })
}

/// An INSERT of placeholders alone.
pub(crate) struct Insertion {
    plan: LogicalPlan,
    /// The bound column of each value of a row.
    columns: Vec<usize>,
}

impl Insertion {
    /// The plan with the rows of a table in place of the placeholders: one INSERT of all rows.
    ///
    /// # Errors
    /// A type that cannot be converted.
    pub(crate) fn of_rows(self, rows: &Arc<dyn TableProvider>) -> Result<LogicalPlan> {
        galatea::with_rows(self.plan, rows, &self.columns)
    }
}

/// Plans `INSERT INTO t VALUES ($1, $2)`; `None` for any other statement. `names` are the placeholders of the
/// bound columns.
///
/// # Errors
/// Those of parsing and planning.
pub(crate) fn insertion<'a>(
    ctx: &'a SessionContext,
    text: &'a str,
    placeholders: &'a Placeholders,
    names: &'a [String],
) -> BoxFuture<'a, Result<Option<Insertion>>> {
    Box::pin(async move {
        let first = text.split_whitespace().next().unwrap_or_default();
        if !first.eq_ignore_ascii_case("INSERT") {
            return Ok(None);
        }
        let Described::Plan(plan) = describe(ctx, text, placeholders).await? else {
            return Ok(None);
        };
        let Some(inserted) = galatea::inserted_placeholders(&plan) else {
            return Ok(None);
        };
        let named = placeholders.names();
        let column = |place: &String| {
            let name = match placeholders.is_named() {
                true => *named.get(place.parse::<usize>().ok()?.checked_sub(1)?)?,
                false => place,
            };
            names.iter().position(|known| known == name)
        };
        let columns: Option<Vec<usize>> = inserted.iter().map(column).collect();
        Ok(columns.map(|columns| Insertion { plan, columns }))
    })
}

/// Executes an update.
///
/// # Errors
/// Those of the update.
pub(crate) fn update(ctx: &SessionContext, plan: LogicalPlan) -> BoxFuture<'_, Result<u64>> {
    Box::pin(async move {
        let frame = galatea::execute(ctx, plan).await?;
        Ok(changed_rows(&frame.collect().await?))
    })
}

/// The parameters of a statement in the order of their positions: their names, empty for parameters without,
/// and their types, `None` if the statement does not determine one.
pub(crate) type Parameters = Vec<(String, Option<DataType>)>;

/// A statement that was planned without executing it.
enum Described {
    /// Its plan, with placeholders.
    Plan(LogicalPlan),
    /// The columns of a statement that DataFusion's planner does not have.
    Columns(SchemaRef),
}

/// The first words of statements that DataFusion's planner does not have, and that return no rows.
const OWN: [&str; 3] = ["ALTER", "RESET", "SET"];

async fn describe(ctx: &SessionContext, text: &str, placeholders: &Placeholders) -> Result<Described> {
    let none = || Ok(Described::Columns(Arc::new(Schema::empty())));
    match galatea::session_statement(text)? {
        Some(SessionStatement::Summarize { .. }) => {
            return Ok(Described::Columns(galatea::summary_schema()));
        }
        Some(_) => return none(),
        None => {}
    }
    let first = text.split_whitespace().next().unwrap_or_default();
    if OWN.iter().any(|own| first.eq_ignore_ascii_case(own)) {
        return none();
    }
    let state = ctx.state();
    if !placeholders.is_named() {
        placeholders.count()?;
    }
    let numbered = placeholders.positional(text);
    let parsed = galatea::statement(&numbered, &state).await?;
    Ok(match state.statement_to_plan(parsed).await? {
        LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => return none(),
        plan => Described::Plan(plan),
    })
}

/// The placeholders of a statement in the dialect of the session.
pub(crate) fn placeholders(ctx: &SessionContext, text: &str) -> Placeholders {
    let dialect = ctx.state_ref().read().config_options().sql_parser.dialect;
    Placeholders::of(text, dialect)
}

/// The parameters of a statement, which is planned but not executed.
///
/// # Errors
/// Those of parsing and planning.
pub(crate) fn parameters<'a>(ctx: &'a SessionContext, text: &'a str) -> BoxFuture<'a, Result<Parameters>> {
    Box::pin(async move {
        let placeholders = placeholders(ctx, text);
        let Described::Plan(plan) = describe(ctx, text, &placeholders).await? else {
            return Ok(Vec::new());
        };
        let types = galatea::parameter_types(&plan)?;
        let of = |name: &str| types.get(&format!("${name}")).cloned().flatten();
        if placeholders.is_named() {
            let names = placeholders.names().into_iter().zip(1..);
            let names = names.map(|(name, place): (_, usize)| (name.to_owned(), of(&place.to_string())));
            return Ok(names.collect());
        }
        let numbers = 1..=placeholders.count()?;
        let numbers = numbers.map(|number| (String::new(), of(&number.to_string())));
        Ok(numbers.collect())
    })
}

/// The columns of a statement's result, without executing it.
///
/// # Errors
/// Those of parsing and planning.
pub(crate) fn columns<'a>(ctx: &'a SessionContext, text: &'a str) -> BoxFuture<'a, Result<SchemaRef>> {
    Box::pin(async move {
        let placeholders = placeholders(ctx, text);
        let plan = match describe(ctx, text, &placeholders).await? {
            Described::Plan(plan) => plan,
            Described::Columns(columns) => return Ok(columns),
        };
        let logical = Arc::clone(plan.schema().inner());
        let planned = DataFrame::new(ctx.state(), plan).create_physical_plan().await;
        match planned {
            Ok(plan) => Ok(plan.schema()),
            // Some parameters have a type only with their values.
            Err(_) if !placeholders.is_empty() => Ok(logical),
            Err(error) => Err(error),
        }
    })
}
