//! Galatea: a GPU analytical query engine on [Apache DataFusion](datafusion).
//!
//! A Galatea session is a DataFusion [`SessionContext`]. Its queries run in generated GPU pipelines if a GPU
//! is available and expected to be faster, and on DataFusion's CPU operators otherwise. Tables, functions and
//! catalogs remain DataFusion's. Results are those of DataFusion's operators with three exceptions: an
//! integer or decimal overflow is an error, plans that DataFusion answers wrongly are corrected, and floats
//! that the GPU computes may differ in their last bits (`docs/src/concepts/exactness.md`).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> datafusion::error::Result<()> {
//! let ctx = galatea::session().with_setting("galatea.device", "cpu").build()?;
//! let rows = ctx.sql("SELECT sum(v) AS total FROM (VALUES (1), (2), (3)) AS t(v)").await?.collect().await?;
//! assert_eq!(rows[0].num_rows(), 1);
//!
//! let report = galatea::last_query_report(&ctx).expect("a query was planned");
//! println!("ran on the {}: {}", report.device, report.reasons.join("; "));
//! # Ok(())
//! # }
//! ```
//!
//! A single call converts an existing context, for all its clones:
//!
//! ```
//! use datafusion::prelude::SessionContext;
//!
//! # fn main() -> datafusion::error::Result<()> {
//! let ctx = SessionContext::new();
//! galatea::install(&ctx)?;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod activity;
mod alter_table;
mod calibration;
mod changes;
mod create_table;
mod database;
mod directories;
mod encodings;
mod file_names;
mod file_paths;
mod file_tables;
mod files;
mod formats;
mod functions;
mod insert_rows;
mod install;
mod kmeans;
mod lateral;
mod layout;
mod message;
mod nested_text;
mod new_folders;
mod optimize;
mod placeholders;
mod plain_columns;
mod read_files;
mod relations;
mod remote_files;
mod reset;
mod sample;
mod session;
mod sql;
mod sql_names;
mod standard_input;
mod system_settings;
mod system_tables;
mod views;

pub use activity::{EngineActivity, StoreActivity, engine_activity};
pub use calibration::{CalibrateError, calibrate, forget_calibration, forget_calibrations};
pub use changes::{ChangeError, changed_rows, is_update};
pub use database::{DatabaseError, is_database};
pub use files::FileQueries;
pub use galatea_device::EmulatorOptions;
pub use galatea_engine::checks::{Fault, RowError};
pub use galatea_engine::config::{EngineSettings, GalateaConfig, SettingReference};
pub use galatea_engine::device::calibration::Calibrated;
pub use galatea_engine::device::{DeviceActivity, DeviceCeilings, RegionContent};
pub use galatea_engine::engine::{Engine, EngineBuilder};
pub use galatea_engine::explain::{
    PlanEdge, PlanEdgeKind, PlanFact, PlanGraph, PlanNode, outline, plan_graph,
};
pub use galatea_engine::report::{
    QueryAdmission, QueryDevice, QueryPhases, QueryProgress, QueryReport, QueryReports, QueryStep, RunReport,
    Span, SpanPhase, Timeline,
};
pub use galatea_memory::regions::{PipelineName, QueryInfo, RegionInfo, RegionKind, SpillCounts};
pub use insert_rows::{inserted_placeholders, with_rows};
pub use layout::{
    ConflictAnalysis, ConflictLayoutError, ConflictLayoutStatement, ConflictLine, analyse_conflicts,
};
pub use message::{ErrorKind, FailedStatement, Origin, closest_name, error_message, raised_at};
pub use nested_text::nested_as_text;
pub use optimize::{ColumnEncoding, OptimizeError, OptimizeOptions, Optimized, OptimizedColumn, optimize};
pub use placeholders::{BoundStatement, PlaceholderError, Placeholders, parameter_types};
pub use plain_columns::{schema_without_views, without_views};
pub use remote_files::RemoteFileError;
pub use session::{SessionBuilder, open, session};
pub use sql::{
    STANDARD_OUTPUT, SessionStatement, SqlError, execute, own_statement, physical_plan, session_statement,
    sql, statement, summary_schema, unresolved_statement,
};
pub use sql_names::sql_name;
pub use standard_input::StandardInputError;

pub use galatea_engine::metrics;
pub use galatea_engine::placement::query_report;
pub use galatea_engine::plans::PlanStatistics;
pub use galatea_engine::policies;
pub use galatea_engine::scan_progress::{ScanProgress, rows_read};
pub use galatea_engine::stream;

use galatea_engine::checks::{CheckArithmetic, GrowStack, GuardConjuncts, GuardOperands, NameErrors};
use galatea_engine::corrections;
use galatea_engine::join_order::OrderJoins;
use galatea_engine::late_columns::DecodeFiltersFirst;
use galatea_engine::placement::{AnnotatePlacement, PlaceOnDevice, RefuseEndless};
use galatea_engine::plans::{PlanCache, ReusingPlanner};
use galatea_engine::session::Session;
use galatea_engine::spilling_join::SpillJoins;

use std::sync::Arc;
use std::time::Duration;

use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::prelude::SessionContext;

type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// Converts `ctx`, and every clone of it, into a Galatea session. A second call has no effect.
///
/// Registers the settings under `galatea.`, the rules that place subtrees on the GPU, a query planner that
/// wraps the session's own and reuses finished plans, and formats for CSV, JSON and Parquet files. Each of
/// these formats is registered only if the session has DataFusion's own format without options. Catalogs,
/// tables, functions, other rules and settings are unchanged.
///
/// With the cache of plans, [`SessionState::optimize`](datafusion::execution::SessionState::optimize) does
/// not optimise queries, but leaves them to the planner. A program that replaces the query planner, or that
/// needs optimised logical plans, sets `galatea.cache.plans` to 0.
///
/// The context becomes a session of the process' engine, [`Engine::of_process`]: it shares devices, the store
/// and the settings of [`EngineSettings`] with all others. Pages that are evicted from device memory may be
/// written to temporary files of DataFusion's default environment, not the context's. [`install_on`] takes an
/// engine with another environment ([`EngineBuilder::with_temporary_files`]).
pub fn install(ctx: &SessionContext) -> Result<()> {
    install_on(ctx, Engine::of_process())
}

/// Like [`install`], but with a separate engine that has the emulated device (`galatea.device = 'emulated'`):
/// for tests. Needs the feature `emulator`.
///
/// # Errors
/// Those of [`install`].
pub fn install_with_emulated_device(ctx: &SessionContext, options: EmulatorOptions) -> Result<()> {
    let files = Arc::clone(&ctx.runtime_env().disk_manager);
    let engine = Engine::builder().with_emulated_device(options);
    install_on(ctx, &engine.with_temporary_files(files).build()?)
}

/// Like [`install`], as a session of the given engine.
///
/// # Errors
/// Those of [`install`].
pub fn install_on(ctx: &SessionContext, engine: &Arc<Engine>) -> Result<()> {
    let Some((session, config)) = install_rules(ctx, engine) else {
        return Ok(());
    };
    // If a device is expected, tables that the session creates are stored encoded, as the device reads them.
    if session.engine().expects_device(&config) {
        galatea_store::install(ctx, Arc::clone(session.engine().store()))?;
    }
    views::install(ctx, sql::plan);
    Ok(())
}

/// Replaces the session's state by one with our settings, rules and extensions; `None` if it already has
/// them.
fn install_rules(ctx: &SessionContext, engine: &Arc<Engine>) -> Option<(Arc<Session>, GalateaConfig)> {
    let shared = ctx.state_ref();
    let mut state = shared.write();
    if state.config().get_extension::<QueryReports>().is_some() {
        return None;
    }
    let host_rules = corrections::physical_rules(state.physical_optimizers());
    let reports = QueryReports::default();
    let session = Session::new(Arc::clone(engine), reports.clone())
        .with_environment(Arc::clone(state.runtime_env()))
        .with_host_rules(with_guards(&host_rules));
    let session = Arc::new(session);
    let plans = PlanCache::new();
    let variables = Arc::new(sql::Variables::default());
    let inner = Arc::clone(state.query_planner());
    let planner = ReusingPlanner::new(Arc::clone(&plans), Arc::clone(&session), inner);
    let mut config = state
        .config()
        .clone()
        .with_extension(Arc::new(reports))
        .with_extension(plans)
        .with_extension(Arc::new(sql::Macros::default()))
        .with_extension(Arc::clone(&variables))
        .with_extension(Arc::clone(&session));
    let mut settings = GalateaConfig::of(config.options());
    settings.engine = engine.settings().clone();
    config.options_mut().extensions.insert(settings);
    let rules = with_placement(&host_rules, &session);
    let mut installed = install::with_rules_and_planner(&state, config, rules, planner);
    if let Err(error) = formats::install(&mut installed) {
        tracing::warn!(%error, "the session keeps DataFusion's file formats");
    }
    if let Err(error) = installed.register_relation_planner(Arc::new(relations::Relations)) {
        tracing::warn!(%error, "TABLESAMPLE is not available in this session");
    }
    if let Err(error) = installed.register_udf(Arc::new(variables.function())) {
        tracing::warn!(%error, "getvariable is not available in this session");
    }
    functions::register(&mut installed);
    system_tables::register(&mut installed, &session);
    kmeans::register(&mut installed, &session);
    for factory in installed.table_factories_mut().values_mut() {
        let streams = stream::FolderTableFactory::new(Arc::clone(factory));
        *factory = Arc::new(new_folders::NewFolders(Arc::new(streams)));
    }
    let config = GalateaConfig::of(installed.config_options());
    *state = installed;
    Some((session, config))
}

/// Adds our rules in this order:
///
/// 1. checks of arithmetic, before all other rules,
/// 2. join order and placement, after `aggregate_statistics`: rules that repartition and push down run later
///    and take GPU subtrees into account,
/// 3. guards of the operators that remain on the CPU, and scans that decode the columns of their filter
///    first,
/// 4. the refusal of streams that would never return a row, before DataFusion's check,
/// 5. hash joins on the CPU that spill, then the annotation of the finished plan, as the last rule.
fn with_placement(rules: &[PhysicalRule], session: &Arc<Session>) -> Vec<PhysicalRule> {
    let early = early(rules);
    let mut rules = with_guards(rules);
    rules.insert(early, Arc::new(OrderJoins));
    rules.insert(early + 1, Arc::new(PlaceOnDevice::new(Arc::clone(session))));
    // It also precedes `OutputRequirements`, which adds a node with the required order of the query. Later
    // rules look for this node at the root.
    rules.insert(0, Arc::new(CheckArithmetic));
    let check = rules.iter().position(|rule| rule.name() == "SanityCheckPlan");
    rules.insert(check.unwrap_or(rules.len()), Arc::new(RefuseEndless));
    rules.push(Arc::new(SpillJoins));
    rules.push(Arc::new(AnnotatePlacement::new(Arc::clone(session))));
    rules
}

/// The index after `aggregate_statistics`, which answers aggregates from statistics alone; 0 without it.
fn early(rules: &[PhysicalRule]) -> usize {
    let statistics = rules
        .iter()
        .position(|rule| rule.name() == "aggregate_statistics");
    statistics.map_or(0, |at| at + 1)
}

/// Adds the rules that guard operators on the CPU. If a filter fixes a column to one value, DataFusion omits
/// a sort by this column. It derives this from the condition when it plans sorts, and again during execution.
/// So no rule may change conditions after sorts are planned (`EnsureRequirements`).
fn with_guards(rules: &[PhysicalRule]) -> Vec<PhysicalRule> {
    let early = early(rules);
    let sorts = rules.iter().position(|rule| rule.name() == "EnsureRequirements");
    let mut rules = rules.to_vec();
    let sorts = sorts.unwrap_or(rules.len());
    rules.insert(sorts, Arc::new(GuardConjuncts));
    rules.insert(sorts + 1, Arc::new(NameErrors));
    rules.insert(sorts + 2, Arc::new(GrowStack));
    rules.insert(early, Arc::new(GuardOperands));
    rules.push(Arc::new(NameErrors));
    rules.push(Arc::new(DecodeFiltersFirst));
    rules.push(Arc::new(GrowStack));
    rules
}

/// The report of the session's last query; `None` if no query was planned, or if it is not a Galatea session.
///
/// For concurrent queries, this is the query planned last. [`query_report`] returns the report of each plan.
pub fn last_query_report(ctx: &SessionContext) -> Option<QueryReport> {
    reports(ctx)?.last()
}

/// The object that holds the report of the session's last query; `None` if it is not a Galatea session.
pub fn reports(ctx: &SessionContext) -> Option<Arc<QueryReports>> {
    ctx.state_ref().read().config().get_extension::<QueryReports>()
}

/// Requests that the session's most recently planned query end early with a partial result. Only queries with
/// `kmeans(..., on_interrupt => 'keep')` support that. Returns false if the query does not support it, or if
/// it was requested before. The caller can then cancel the query.
pub fn end_early(ctx: &SessionContext) -> bool {
    reports(ctx).is_some_and(|reports| reports.end_early())
}

/// Waits until the background warm-up of the session's queries has loaded their columns and compiled their
/// kernels (`galatea.warmup`).
pub async fn finish_background(ctx: &SessionContext) {
    if let Some(session) = ctx.copied_config().get_extension::<Session>() {
        session.finish_background().await;
    }
}

/// Cancels the background warm-up of the session's queries. Returns whether a warm-up was running; a running
/// one stops at its next step.
pub fn cancel_background(ctx: &SessionContext) -> bool {
    let session = ctx.copied_config().get_extension::<Session>();
    session.is_some_and(|session| session.cancel_background())
}

/// Waits until the columns that the session's engine has loaded from files have been written to the column
/// cache on disk (`galatea.cache.disk`), at most for `time`. A process that ends earlier drops the others.
/// Returns whether all have been written.
pub async fn finish_column_writes(ctx: &SessionContext, time: Duration) -> bool {
    let Some(session) = ctx.copied_config().get_extension::<Session>() else {
        return true;
    };
    let engine = Arc::clone(session.engine());
    let wait = tokio::task::spawn_blocking(move || engine.wait_for_column_writes(time));
    wait.await.unwrap_or(false)
}

/// The number of the session's queries that reused plans of earlier ones (`galatea.cache.plans`); `None` if
/// it is not a Galatea session.
pub fn plan_statistics(ctx: &SessionContext) -> Option<PlanStatistics> {
    let state = ctx.state_ref();
    let plans = state.read().config().get_extension::<PlanCache>()?;
    Some(plans.statistics())
}

/// Pages of the book. Their examples are compiled and run as documentation tests.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../docs/src/guide/library.md")]
    struct Library;
    #[doc = include_str!("../../../docs/src/guide/streams.md")]
    struct Streams;
}
