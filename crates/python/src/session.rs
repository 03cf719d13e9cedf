//! A session of the engine: its settings, tables and statements.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::common::{TableReference, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::cache::cache_manager::CacheManagerConfig;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use datafusion_cli::catalog::DynamicObjectStoreCatalog;
use datafusion_cli::functions::ParquetMetadataFunc;
use galatea::{BoundStatement, QueryReport, changed_rows, is_update};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{Failure, ProgrammingError, exception};
use crate::frame::Frame;
use crate::input;
use crate::parameters;
use crate::threads::{Progress, wait};
use crate::variables::{self, Variables};

/// A session. It may be used by several threads at once.
#[pyclass(frozen, module = "galatea._galatea")]
pub(crate) struct Session {
    ctx: SessionContext,
}

/// Builds a session like that of the terminal: with file queries, object stores and a column cache on disk.
async fn build(settings: Vec<(String, String)>, database: Option<PathBuf>) -> Result<SessionContext> {
    let is_runtime = |name: &str| name.starts_with("datafusion.runtime.");
    let mut options = ConfigOptions::from_env()?;
    if options.format.null == ConfigOptions::default().format.null {
        options.format.null = "NULL".to_string();
    }
    // Errors show their position in the statement.
    options.sql_parser.collect_spans = true;
    let config = SessionConfig::from(options).with_information_schema(true);
    let runtime = RuntimeEnvBuilder::new()
        // A file that appears while the session is open is visible to the next query.
        .with_cache_manager(CacheManagerConfig::default().with_list_files_cache_limit(0))
        .build_arc()?;
    let mut builder = galatea::session().with_setting("galatea.cache.disk", "auto");
    for (name, value) in settings.iter().filter(|(name, _)| !is_runtime(name)) {
        // The caller starts the process, so that it may allow the emulated device.
        builder = builder.with_trusted_setting(name, value);
    }
    if let Some(database) = database {
        builder = builder.with_database(database);
    }
    let ctx = builder
        .with_config(config)
        .with_runtime(runtime)
        .with_file_queries(true)
        .build()?;
    for (name, value) in settings.iter().filter(|(name, _)| is_runtime(name)) {
        let value = value.replace('\'', "''");
        ctx.sql(&format!("SET {name} = '{value}'")).await?;
    }
    variables::enable(&ctx);
    let catalogs = Arc::clone(ctx.state().catalog_list());
    let stores = DynamicObjectStoreCatalog::new(catalogs, ctx.state_weak_ref());
    ctx.register_catalog_list(Arc::new(stores));
    ctx.register_udtf("parquet_metadata", Arc::new(ParquetMetadataFunc {}));
    Ok(ctx)
}

/// A planned query, or the result of another statement.
struct Planned {
    frame: DataFrame,
    /// The number of rows that the statement changed or wrote; `None` for other statements.
    affected: Option<u64>,
}

impl From<DataFrame> for Planned {
    fn from(frame: DataFrame) -> Self {
        Self {
            frame,
            affected: None,
        }
    }
}

/// Plans a statement. A query runs when its frame is read; all other statements run here. `variables` are
/// visible to the planner only: a statement creates, changes and removes tables of the catalog.
async fn plan(
    ctx: &SessionContext,
    statement: &BoundStatement<'_>,
    variables: Option<&Arc<Variables>>,
) -> Result<Planned> {
    let own = galatea::own_statement(ctx, &statement.text);
    if let Some(frame) = Variables::scope(variables, own).await? {
        return Ok(frame.into());
    }
    let state = ctx.state();
    let plan = Variables::scope(variables, statement.plan(&state)).await?;
    match plan {
        LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => {
            let frame = galatea::execute(ctx, plan).await?;
            // EXECUTE of a statement that changes rows.
            match is_update(frame.logical_plan()) {
                true => changed(ctx, frame).await,
                false => Ok(frame.into()),
            }
        }
        LogicalPlan::Dml(dml)
            if variables.is_some_and(|found| found.contains(dml.table_name.table()))
                && !ctx.table_exist(dml.table_name.clone())? =>
        {
            let name = dml.table_name.table();
            plan_err!(
                "{name} is a variable, which statements cannot change\nhint: CREATE TABLE ... AS SELECT * FROM {name}"
            )
        }
        LogicalPlan::Dml(_) | LogicalPlan::Copy(_) => {
            let frame = galatea::execute(ctx, plan).await?;
            changed(ctx, frame).await
        }
        query => Ok(DataFrame::new(state, query).into()),
    }
}

/// Runs a statement that changes or writes rows.
async fn changed(ctx: &SessionContext, frame: DataFrame) -> Result<Planned> {
    let schema = Arc::clone(frame.schema().inner());
    let batches = frame.collect().await?;
    let affected = Some(changed_rows(&batches));
    let rows = MemTable::try_new(schema, vec![batches])?;
    let frame = ctx.read_table(Arc::new(rows))?;
    Ok(Planned { frame, affected })
}

#[pymethods]
impl Session {
    /// Builds a session with these settings, pairs of a full name and a value. `database` is the folder
    /// of a database, whose tables last.
    #[new]
    #[pyo3(signature = (settings, database=None))]
    fn new(py: Python<'_>, settings: Vec<(String, String)>, database: Option<PathBuf>) -> PyResult<Self> {
        let built = wait(py, &mut Progress::new(None, None), build(settings, database))?;
        Ok(Self {
            ctx: built.map_err(exception)?,
        })
    }

    /// Plans a query, or executes another statement. `find` returns the variable of a name that is no table.
    #[pyo3(signature = (statement, parameters=None, find=None, progress=None))]
    fn sql(
        &self,
        py: Python<'_>,
        statement: &str,
        parameters: Option<&Bound<'_, PyAny>>,
        find: Option<Py<PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Frame> {
        let dialect = self.ctx.state_ref().read().config_options().sql_parser.dialect;
        let BoundStatement { text, values } = parameters::bind(statement, dialect, parameters)?;
        let text = text.into_owned();
        let reports = galatea::reports(&self.ctx);
        if let Some(reports) = &reports {
            reports.clear();
        }
        let ctx = self.ctx.clone();
        let statement = text.clone();
        let work = async move {
            let statement = BoundStatement {
                text: text.as_str().into(),
                values,
            };
            let variables = find.map(Variables::new).map(Arc::new);
            match plan(&ctx, &statement, variables.as_ref()).await {
                Ok(planned) => Ok(planned),
                Err(error) => Err(Failure::of_statement(&ctx, &text, error).await),
            }
        };
        let Planned { frame, affected } = wait(py, &mut Progress::new(reports, progress), work)??;
        Ok(Frame::new(self.ctx.clone(), frame, statement, affected))
    }

    /// Registers a table over an object: a frame, or anything that exports an Arrow stream. It replaces a
    /// table of that name. Names are written as in SQL.
    fn register(&self, py: Python<'_>, name: &str, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let table = input::table(object)?;
        let (ctx, name) = (self.ctx.clone(), TableReference::from(name));
        let work = async move {
            ctx.deregister_table(name.clone())?;
            ctx.register_table(name, table)?;
            Ok::<_, DataFusionError>(())
        };
        wait(py, &mut Progress::new(None, None), work)?.map_err(exception)
    }

    /// Removes a registered table.
    fn unregister(&self, name: &str) -> PyResult<()> {
        let removed = self.ctx.deregister_table(TableReference::from(name));
        match removed.map_err(exception)? {
            Some(_) => Ok(()),
            None => Err(ProgrammingError::new_err(format!("no such table: {name}"))),
        }
    }

    /// The report of the query planned last, as a dictionary; `None` if the last statement planned no query.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let report = galatea::last_query_report(&self.ctx);
        report.map(|report| report_dict(py, &report)).transpose()
    }

    /// Waits until the warm-up in the background has loaded columns and compiled kernels.
    fn finish_background(&self, py: Python<'_>) -> PyResult<()> {
        let ctx = self.ctx.clone();
        let work = async move { galatea::finish_background(&ctx).await };
        wait(py, &mut Progress::new(None, None), work)
    }
}

/// A report as a dictionary. Times are in seconds.
fn report_dict<'py>(py: Python<'py>, report: &QueryReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("device", report.device.to_string())?;
    dict.set_item("reasons", &report.reasons)?;
    dict.set_item("placed", report.placed)?;
    dict.set_item("fell_back", report.fell_back)?;
    dict.set_item("plan_reused", report.plan_reused)?;
    dict.set_item("device_bytes", report.device_bytes)?;
    dict.set_item("link_bytes", report.link_bytes)?;
    let phases = PyDict::new(py);
    for (name, time) in [
        ("planning", report.phases.planning),
        ("compile", report.phases.compile),
        ("load", report.phases.load),
        ("transfer", report.phases.transfer),
        ("kernel", report.phases.kernel),
        ("total", report.phases.total),
    ] {
        phases.set_item(name, time.as_secs_f64())?;
    }
    dict.set_item("seconds", phases)?;
    Ok(dict)
}
