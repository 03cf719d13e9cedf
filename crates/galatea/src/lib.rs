//! Galatea: a GPU analytical query engine on [Apache DataFusion](datafusion).
//!
//! A Galatea session is a DataFusion [`SessionContext`] whose queries run in generated GPU pipelines wherever
//! a GPU is there and expected to be faster, and on DataFusion's CPU operators everywhere else. Nothing else
//! about the context changes: tables, functions, catalogs and results are DataFusion's.
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
//! A context that exists already becomes one by a single call, for all its clones:
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

mod calibration;
mod directories;
mod file_tables;
mod files;
mod formats;
mod install;
mod kmeans;
mod lateral;
mod layout;
mod nested_text;
mod new_folders;
mod sample;
mod session;
mod sql;
mod system_settings;
mod system_tables;

pub use calibration::{CalibrateError, calibrate, forget_calibration};
pub use files::FileQueries;
pub use galatea_device::EmulatorOptions;
pub use galatea_engine::checks::{Fault, RowError};
pub use galatea_engine::config::{EngineSettings, GalateaConfig, SettingReference};
pub use galatea_engine::device::calibration::Calibrated;
pub use galatea_engine::engine::{Engine, EngineBuilder};
pub use galatea_engine::explain::outline;
pub use galatea_engine::report::{
    QueryDevice, QueryPhases, QueryProgress, QueryReport, QueryReports, QueryStep,
};
pub use layout::{
    ConflictAnalysis, ConflictLayoutError, ConflictLayoutStatement, ConflictLine, analyse_conflicts,
};
pub use nested_text::nested_as_text;
pub use session::{SessionBuilder, session};
pub use sql::{SqlError, own_statement, sql, statement};

pub use galatea_engine::metrics;
pub use galatea_engine::placement::query_report;
pub use galatea_engine::plans::PlanStatistics;
pub use galatea_engine::policies;
pub use galatea_engine::scan_progress::ScanProgress;
pub use galatea_engine::stream;

use galatea_engine::checks::{CheckArithmetic, GrowStack, GuardConjuncts, GuardOperands, NameErrors};
use galatea_engine::corrections;
use galatea_engine::join_order::OrderJoins;
use galatea_engine::placement::{AnnotatePlacement, PlaceOnDevice};
use galatea_engine::plans::{PlanCache, ReusingPlanner};
use galatea_engine::session::Session;
use galatea_engine::spilling_join::SpillJoins;

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::prelude::SessionContext;

type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// Makes `ctx`, and every clone of it, a Galatea session. A second call changes nothing.
///
/// Registers the settings under `galatea.`, the rules that place subtrees on the GPU, a query planner around
/// the session's own that uses finished plans again, and formats for CSV, JSON and Parquet files in the place
/// of DataFusion's, if the session has these without options of its own. Catalogs, tables, functions, other
/// rules and settings stay as they are. Set `galatea.plan_cache` to 0 after replacing the query planner, or
/// to get optimised logical plans:
/// [`SessionState::optimize`](datafusion::execution::SessionState::optimize) leaves queries to the planner
/// otherwise.
///
/// The context is a session of the process' engine, [`Engine::of_process`]: it shares devices, the store and
/// the settings of [`EngineSettings`] with all others. What leaves device memory may be written to temporary
/// files of DataFusion's default environment, whatever the context's: [`install_on`] takes an engine with
/// others ([`EngineBuilder::with_temporary_files`]).
pub fn install(ctx: &SessionContext) -> Result<()> {
    install_on(ctx, Engine::of_process())
}

/// As [`install`], with an engine of its own that has the emulated device (`galatea.device = 'emulated'`):
/// for tests. Needs the feature `emulator`.
///
/// # Errors
/// Those of [`install`].
pub fn install_with_emulated_device(ctx: &SessionContext, options: EmulatorOptions) -> Result<()> {
    let files = Arc::clone(&ctx.runtime_env().disk_manager);
    let engine = Engine::builder().with_emulated_device(options);
    install_on(ctx, &engine.with_temporary_files(files).build()?)
}

/// As [`install`], as a session of that engine.
///
/// # Errors
/// Those of [`install`].
pub fn install_on(ctx: &SessionContext, engine: &Arc<Engine>) -> Result<()> {
    let Some((session, config)) = install_rules(ctx, engine) else {
        return Ok(());
    };
    // With a device, tables that the session creates are stored encoded, as the device reads them.
    if session.engine().expects_device(&config) {
        galatea_store::install(ctx, Arc::clone(session.engine().store()))?;
    }
    Ok(())
}

/// Replaces the session's state by one with our settings, rules and extensions; none when it has them
/// already.
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
    let inner = Arc::clone(state.query_planner());
    let planner = ReusingPlanner::new(Arc::clone(&plans), Arc::clone(&session), inner);
    let mut config = state
        .config()
        .clone()
        .with_extension(Arc::new(reports))
        .with_extension(plans)
        .with_extension(Arc::clone(&session));
    let mut settings = GalateaConfig::of(config.options());
    settings.engine = engine.settings().clone();
    config.options_mut().extensions.insert(settings);
    let rules = with_placement(&host_rules, &session);
    let mut installed = install::with_rules_and_planner(&state, config, rules, planner);
    if let Err(error) = formats::install(&mut installed) {
        tracing::warn!(%error, "the session keeps DataFusion's file formats");
    }
    if let Err(error) = installed.register_relation_planner(Arc::new(sample::Relations)) {
        tracing::warn!(%error, "TABLESAMPLE is not available in this session");
    }
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

/// The rules with ours among them: checks of arithmetic first; the order of joins and placement early, right
/// after what DataFusion answers from statistics alone, so that repartitioning and pushdown are arranged
/// around GPU subtrees; guards of what is left to the CPU; the annotation of the finished plan last.
fn with_placement(rules: &[PhysicalRule], session: &Arc<Session>) -> Vec<PhysicalRule> {
    let early = early(rules);
    let mut rules = with_guards(rules);
    rules.insert(early, Arc::new(OrderJoins));
    rules.insert(early + 1, Arc::new(PlaceOnDevice::new(Arc::clone(session))));
    // Before a rule notes the order that the query asks for, which later ones look for.
    rules.insert(0, Arc::new(CheckArithmetic));
    rules.push(Arc::new(SpillJoins));
    rules.push(Arc::new(AnnotatePlacement::new(Arc::clone(session))));
    rules
}

/// Where rules are that come before all but what DataFusion answers from statistics alone.
fn early(rules: &[PhysicalRule]) -> usize {
    let statistics = rules
        .iter()
        .position(|rule| rule.name() == "aggregate_statistics");
    statistics.map_or(0, |at| at + 1)
}

/// The rules of operators on the CPU, with guards. DataFusion leaves out sorts by columns that a filter makes
/// constant, and reads that from the filter's condition again when the query runs, so conditions change for
/// the last time before it plans sorts.
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
    rules.push(Arc::new(GrowStack));
    rules
}

/// The report of the session's last query; none when it has planned none, or is not a Galatea session.
///
/// Of concurrent queries this is the one planned last; [`query_report`] gives that of each plan.
pub fn last_query_report(ctx: &SessionContext) -> Option<QueryReport> {
    reports(ctx)?.last()
}

/// The session's slot of reports; none when it is not a Galatea session.
pub fn reports(ctx: &SessionContext) -> Option<Arc<QueryReports>> {
    ctx.state_ref().read().config().get_extension::<QueryReports>()
}

/// Asks the session's query planned last to end early with what it has, as `kmeans(..., on_interrupt =>
/// 'keep')` does; false where it does not offer that, or was asked before: it can be cancelled then.
pub fn end_early(ctx: &SessionContext) -> bool {
    reports(ctx).is_some_and(|reports| reports.end_early())
}

/// Waits until the columns and kernels are made that queries of the session have left to the background
/// (`galatea.background`).
pub async fn finish_background(ctx: &SessionContext) {
    if let Some(session) = ctx.copied_config().get_extension::<Session>() {
        session.finish_background().await;
    }
}

/// Drops what queries of the session have left to the background; whether something was being done, which
/// stops at its next step.
pub fn cancel_background(ctx: &SessionContext) -> bool {
    let session = ctx.copied_config().get_extension::<Session>();
    session.is_some_and(|session| session.cancel_background())
}

/// How often the session's queries were given plans of earlier ones (`galatea.plan_cache`); none when it is
/// not a Galatea session.
pub fn plan_statistics(ctx: &SessionContext) -> Option<PlanStatistics> {
    let state = ctx.state_ref();
    let plans = state.read().config().get_extension::<PlanCache>()?;
    Some(plans.statistics())
}

/// README.md, whose examples are compiled and run as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
