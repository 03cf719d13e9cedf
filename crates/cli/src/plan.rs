//! From a statement to a plan.
//!
//! DataFusion's command registers the object stores that COPY and CREATE EXTERNAL TABLE name (`s3://`,
//! `gs://`); its library does not. So these statements go through that command, over a session that keeps the
//! plan instead of running it, because results are printed here. The query of a COPY is replaced by a query
//! without tables, because the command would interpret it differently.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::common::exec_datafusion_err;
use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{ExplainFormat, LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{CopyToStatement, Statement};
use datafusion_cli::cli_context::CliSessionContext;
use datafusion_cli::exec::exec_from_commands;
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreRegistry;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::{MaxRows, PrintOptions};
use object_store::ObjectStore;
use url::Url;

use crate::destination;

/// The kind of a statement's result.
pub(crate) enum Planned {
    /// Rows. `complete`: the result is short, and all of its rows are shown.
    Rows { frame: DataFrame, complete: bool },
    /// A COPY to standard output.
    Output(DataFrame),
    /// The text of DataFusion's EXPLAIN.
    Text(DataFrame),
    /// The outline of a plan.
    Outline(DataFrame),
    /// The outline of an executed plan.
    Analysis(DataFrame),
}

/// Plans `statement`. Statements that return no rows are executed here.
pub(crate) async fn plan(
    ctx: &SessionContext,
    stores: &Arc<InstrumentedObjectStoreRegistry>,
    statement: &str,
) -> Result<Planned> {
    let read = galatea::statement(statement, &ctx.state()).await?;
    let mut planner = Planner {
        ctx: ctx.clone(),
        names_format: names_format(statement),
        copy: None,
        planned: Mutex::default(),
    };
    let stores_of = match read {
        Statement::CreateExternalTable(_) => statement.to_string(),
        Statement::CopyTo(copy) => {
            let target = copy_of_nothing(&copy);
            planner.copy = Some(copy);
            target
        }
        other => return planner.planned(ctx.state().statement_to_plan(other).await?).await,
    };
    let nothing = PrintOptions {
        format: PrintFormat::Csv,
        quiet: true,
        maxrows: MaxRows::Unlimited,
        color: false,
        instrumented_registry: Arc::clone(stores),
    };
    exec_from_commands(&planner, vec![stores_of], &nothing).await?;
    let planned = planner
        .planned
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    planned.ok_or_else(|| exec_datafusion_err!("the statement is empty"))
}

/// The SQL of a COPY to the same target, but of a query without tables.
fn copy_of_nothing(copy: &CopyToStatement) -> String {
    let mut text = format!("COPY (SELECT 1) TO '{}'", copy.target.replace('\'', "''"));
    if let Some(format) = &copy.stored_as {
        text += &format!(" STORED AS {format}");
    }
    let options: Vec<String> = copy
        .options
        .iter()
        .map(|(name, value)| format!("'{}' {value}", name.replace('\'', "''")))
        .collect();
    if !options.is_empty() {
        text += &format!(" OPTIONS ({})", options.join(", "));
    }
    text
}

/// Whether EXPLAIN ANALYZE names a format. Its plan does not show that, because the default is a format, too.
fn names_format(statement: &str) -> bool {
    let words = statement.split_whitespace().map(str::to_ascii_uppercase);
    let mut words = words.skip_while(|word| word != "EXPLAIN");
    let options = words.find(|word| !["EXPLAIN", "ANALYZE", "VERBOSE"].contains(&word.as_str()));
    options.is_some_and(|word| word == "FORMAT" || word.starts_with('('))
}

/// A session that only plans.
struct Planner {
    ctx: SessionContext,
    names_format: bool,
    /// The statement, if the command plans another one in its place.
    copy: Option<CopyToStatement>,
    planned: Mutex<Option<Planned>>,
}

impl Planner {
    async fn planned(&self, plan: LogicalPlan) -> Result<Planned> {
        let of = |plan: &Arc<LogicalPlan>| DataFrame::new(self.ctx.state(), LogicalPlan::clone(plan));
        Ok(match &plan {
            LogicalPlan::Explain(explain)
                if explain.explain_format == ExplainFormat::Tree
                    && !explain.verbose
                    && is_query(&explain.plan) =>
            {
                Planned::Outline(of(&explain.plan))
            }
            LogicalPlan::Analyze(analyze)
                if !self.names_format && !analyze.verbose && is_query(&analyze.input) =>
            {
                Planned::Analysis(of(&analyze.input))
            }
            LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => {
                Planned::Text(galatea::execute(&self.ctx, plan).await?)
            }
            _ => {
                let mut to_output = false;
                if let LogicalPlan::Copy(copy) = &plan {
                    to_output = copy.output_url.starts_with(galatea::STANDARD_OUTPUT);
                    destination::check(copy)?;
                }
                let complete = matches!(plan, LogicalPlan::DescribeTable(_));
                let frame = galatea::execute(&self.ctx, plan).await?;
                if to_output {
                    return Ok(Planned::Output(frame));
                }
                Planned::Rows { frame, complete }
            }
        })
    }
}

/// Whether a plan only reads.
fn is_query(plan: &LogicalPlan) -> bool {
    !matches!(
        plan,
        LogicalPlan::Ddl(_) | LogicalPlan::Dml(_) | LogicalPlan::Copy(_) | LogicalPlan::Statement(_)
    )
}

#[async_trait]
impl CliSessionContext for Planner {
    fn task_ctx(&self) -> Arc<TaskContext> {
        self.ctx.task_ctx()
    }

    fn session_state(&self) -> SessionState {
        self.ctx.state()
    }

    fn register_object_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.ctx.register_object_store(url, store)
    }

    fn register_table_options_extension_from_scheme(&self, scheme: &str) {
        CliSessionContext::register_table_options_extension_from_scheme(&self.ctx, scheme);
    }

    /// Keeps the plan, and returns a frame without work.
    async fn execute_logical_plan(&self, plan: LogicalPlan) -> Result<DataFrame> {
        let plan = match &self.copy {
            Some(copy) => {
                let copy = Statement::CopyTo(copy.clone());
                self.ctx.state().statement_to_plan(copy).await?
            }
            None => plan,
        };
        let planned = self.planned(plan).await?;
        *self.planned.lock().unwrap_or_else(PoisonError::into_inner) = Some(planned);
        let nothing = LogicalPlanBuilder::empty(false).build()?;
        self.ctx.execute_logical_plan(nothing).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explain_format_is_detected() {
        assert!(names_format("explain analyze format indent select 1"));
        assert!(names_format("EXPLAIN (FORMAT indent) SELECT 1"));
        assert!(!names_format(
            "EXPLAIN ANALYZE SELECT format FROM t WHERE b = 'FORMAT'"
        ));
    }
}
