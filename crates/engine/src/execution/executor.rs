//! Runs the pipelines of a graph: first those of build sides, then those that look them up.
//!
//! ```text
//! lineitem ── filter ── lookup orders ── lookup part ── groups        one pipeline
//!                             │               └── rows of CPU operators, arranged on the host
//!                             └── orders ── filter ── lookup customer ── arrays by o_orderkey        another, before it
//! ```
//!
//! A build side over a table, with filters and lookups of its own, is computed by a pipeline and never leaves
//! the device. The build sides of one pipeline are computed concurrently.

use super::build_sides;
use super::error::Failure;
use super::graph_cache::Ready;
use super::pipeline_run::{Output, Run};
use super::shared_builds::SharedBuilds;
use super::source::{entries, load, parts, surviving};
use crate::config::{GalateaConfig, ParquetDecoding};
use crate::device::{DeviceRuntime, RunError};
use crate::graph::{
    Build, BuildSide, KeyBounds, KeyScan, Pipeline, PipelineGraph, PipelineId, PipelineRef, PipelineSource,
};
use crate::joins::build_table::SideRows;
use crate::metrics::{self, PipelineOutcome};
use crate::report::{PlanReport, QueryStep, RunReport, SpanPhase};
use crate::results::queue::ResultQueue;
use crate::session::Session;
use arrow::datatypes::Schema;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::future::try_join_all;
use galatea_base::panic::message;
use galatea_base::reason::Reason;
use galatea_codegen::PipelinePlan;
use galatea_codegen::looked_up;
use galatea_expression::{LookupSide, PAIR_CHUNK_BITS};
use galatea_store::{LoadProgress, ProgressCallback, StoreError, TableId, TableView};
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Maximum number of pairs of a join: their morsels have 32-bit numbers.
pub(super) const MAX_PAIRS: u64 = 1 << 38;

/// A view of the pairs of a join as rows, in chunks small enough for a kernel to number their pairs.
pub(super) fn pairs_view(pairs: u64) -> Result<TableView, RunError> {
    let chunk = 1u64 << PAIR_CHUNK_BITS;
    if pairs > MAX_PAIRS {
        return Err(RunError::Unsupported(Reason::Limit {
            expression: "a join".into(),
            asked: pairs,
            limit: MAX_PAIRS,
            unit: "pairs of rows",
        }));
    }
    let chunks = (0..pairs.div_ceil(chunk)).map(|number| (pairs - number * chunk).min(chunk) as u32);
    Ok(TableView {
        id: TableId::next(),
        schema: Arc::new(Schema::empty()),
        rows: pairs,
        chunk_rows: chunks.collect(),
        columns: Vec::new(),
        loaded: None,
    })
}

/// One execution of a graph of pipelines.
pub(crate) struct Executor<'a> {
    pub session: &'a Arc<Session>,
    pub config: &'a GalateaConfig,
    pub context: &'a Arc<TaskContext>,
    pub report: &'a PlanReport,
    /// Grows by the size of the data collected on the host.
    pub memory: &'a MemoryReservation,
    /// Set when the query is cancelled.
    pub cancelled: Arc<AtomicBool>,
    /// Receives the rows that are returned.
    pub result: &'a Arc<ResultQueue>,
    /// The pipeline that returns them.
    pub returns: PipelineId,
    /// Reports of the pipelines that computed build sides, in the order of completion.
    pub builds: Mutex<Vec<RunReport>>,
    /// Tables and rows loaded before the pipelines run, kept for pipelines that run in partitions.
    pub ready: Arc<Mutex<Ready>>,
    /// Build sides with several readers; empty if each build side of the graph has one.
    pub shared: SharedBuilds,
}

/// A pipeline to run.
pub(super) struct Work {
    pub pipeline: PipelineId,
    pub plan: PipelinePlan,
    pub view: TableView,
    pub chunks: Vec<usize>,
    pub keep: bool,
    pub fetch: Option<u64>,
}

/// The outcome of a pipeline, with build sides that are needed again.
type Ran = (Output, RunReport, Vec<SideRows>);

/// A pipeline with all inputs that it needs to run on another thread.
struct Job {
    session: Arc<Session>,
    config: GalateaConfig,
    work: Work,
    cancelled: Arc<AtomicBool>,
    result: Arc<ResultQueue>,
    progress: PlanReport,
}

impl Job {
    fn run_on<'j>(&'j self, device: &'j DeviceRuntime) -> Run<'j> {
        Run {
            runtime: device,
            config: &self.config,
            pipeline: self.work.pipeline,
            plan: &self.work.plan,
            view: &self.work.view,
            sides: &[],
            chunks: &self.work.chunks,
            keep: self.work.keep,
            fetch: self.work.fetch,
            counted: None,
            cancelled: &self.cancelled,
            result: &self.result,
            progress: &self.progress,
            part: None,
        }
    }

    fn is_brief(&self) -> bool {
        let device = self.session.engine().opened(&self.config);
        device.is_some_and(|device| self.run_on(&device).is_brief())
    }

    fn run(&self, run: impl FnOnce(&Run<'_>) -> Result<Ran, RunError>) -> Result<Ran, RunError> {
        let device = self
            .session
            .engine()
            .device(&self.config)
            .map_err(RunError::Unsupported)?;
        let mut outcome = run(&self.run_on(&device));
        match &mut outcome {
            Ok((_, report, _)) => {
                report.pipeline = self.work.pipeline;
                report.loaded = self.work.view.loaded.clone();
                let strategy = &*report.strategy;
                tracing::debug!(pipeline = %report.pipeline, strategy, rows = report.rows, "a pipeline ran");
                device.count_read(report.device_bytes);
                metrics::ran(&device.device_use(), report);
            }
            // The task that would count the cancellation no longer exists.
            Err(RunError::Cancelled) => metrics::ended(PipelineOutcome::Cancelled),
            Err(_) => {}
        }
        if matches!(&outcome, Err(RunError::Device(error)) if error.is_device_lost()) {
            self.session.engine().forget(&device);
        }
        outcome
    }

    /// The same on the thread of the query. A panic does not end that thread.
    fn caught(&self, run: impl FnOnce(&Run<'_>) -> Result<Ran, RunError>) -> Result<Ran, RunError> {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.run(run)));
        outcome.unwrap_or_else(|panic| {
            let message = message(&*panic).unwrap_or_default();
            Err(RunError::Ended(format!(
                "the run panicked with message {message:?}"
            )))
        })
    }
}

/// The chunks of a view that may hold rows of the pipeline. `matches`: the bounds that its build sides imply.
pub(super) fn chunks(
    pipeline: &Pipeline,
    plan: &PipelinePlan,
    view: &TableView,
    matches: &[KeyBounds],
) -> Vec<usize> {
    let columns: Vec<usize> = plan.columns().into_iter().collect();
    match pipeline.source {
        // Partitions are identified by the numbers of their chunks, including empty ones.
        PipelineSource::Union(_) => (0..pipeline.row_sides.len()).collect(),
        _ => {
            let prune = || surviving(view, &pipeline.pruning, &columns);
            let mut chunks = pipeline.pruned.of(view, &pipeline.pruning, prune);
            chunks.retain(|chunk| {
                let mut bounds = pipeline.key_bounds.iter().chain(matches);
                bounds.all(|keys| keys.may_hold(view, &columns, *chunk))
            });
            chunks
        }
    }
}

/// The failure of a query, after the failure of the pipeline that builds one of its build sides.
pub(super) fn of_side(side: &BuildSide, failure: Failure) -> Failure {
    match failure {
        // This holds for the rows, however they are built.
        Failure::Run(RunError::Unsupported(reason)) if reason.is_of_rows() => {
            Failure::BuildSide(side.shape, reason)
        }
        // This holds for the build side, for any pipeline that looks it up.
        Failure::Run(RunError::Unsupported(reason)) if !matches!(reason, Reason::Device { .. }) => {
            Failure::BuildSide(side.build.as_ref().and_then(|build| build.shape), reason)
        }
        failure => failure,
    }
}

impl Executor<'_> {
    /// Runs the pipelines of a node's graph. The rows of its root are pushed to the queue. Pipelines with
    /// several readers run once, unless memory is too small to run all pipelines over all of their rows.
    pub(crate) async fn return_rows(mut self, graph: &PipelineGraph) -> Result<RunReport, Failure> {
        self.stamp_key_scans(graph, KeyScan::has_range);
        self.compile_ahead(graph).await;
        let shared = SharedBuilds::of(graph);
        if !shared.is_empty() {
            if !self.begins_in_parts(graph) {
                self.shared = shared;
                match self.return_rows_of(graph).await {
                    Err(failure) if failure.wants_memory() && self.result.restart_all() => {}
                    outcome => return outcome,
                }
            }
            // Frees the build sides that readers have not taken.
            self.shared = SharedBuilds::default();
            return self.return_unshared(graph).await;
        }
        self.return_rows_of(graph).await
    }

    async fn return_rows_of(&self, graph: &PipelineGraph) -> Result<RunReport, Failure> {
        let (output, mut report) = self.run(graph.root(), false).await?;
        report.rows_returned = output.rows();
        report.builds = std::mem::take(&mut *self.builds.lock());
        Ok(report)
    }

    /// Runs each pipeline once for each of its readers.
    async fn return_unshared(&self, graph: &PipelineGraph) -> Result<RunReport, Failure> {
        let (graph, origins) = graph.unshared();
        let executor = Executor {
            cancelled: Arc::clone(&self.cancelled),
            returns: graph.root_id(),
            builds: Mutex::default(),
            ready: Arc::default(),
            shared: SharedBuilds::default(),
            ..*self
        };
        let mut report = executor.return_rows_of(&graph).await?;
        let origin = |report: &mut RunReport| report.pipeline = origins[report.pipeline.number()];
        origin(&mut report);
        report.builds.iter_mut().for_each(origin);
        report.builds = RunReport::merged(std::mem::take(&mut report.builds));
        Ok(report)
    }

    /// Runs a pipeline over all of its rows at once.
    pub(super) async fn run_whole(
        &self,
        pipeline: PipelineRef<'_>,
        keep: bool,
    ) -> Result<(Output, RunReport), Failure> {
        let started = Instant::now();
        let plan = pipeline.plan.resolved().map_err(Failure::Input)?;
        let lookups = plan.lookups();
        let sides = 0..pipeline.build_sides.len();
        let sides = sides.map(|number| self.side(pipeline, number, looked_up(&lookups, number)));
        let sides = try_join_all(sides).await?;
        let _turn = self.shared.turn(pipeline).await;
        let rows: Vec<u64> = pipeline
            .row_sides
            .clone()
            .map(|side| sides[side].rows())
            .collect();
        let loading = Instant::now();
        let matches = self.bounds_of_matches(pipeline, &plan, &sides);
        let view = self.view(pipeline, &plan, &rows, Some(&matches)).await?;
        let loaded = loading.elapsed();
        self.report.comes_to(QueryStep::Compiling, 0, None);
        let load_time = started.elapsed();
        self.report.update(|report| report.phases.load += load_time);
        let work = Work {
            pipeline: pipeline.id(),
            chunks: chunks(&pipeline, &plan, &view, &matches),
            fetch: pipeline.fetch.map(|fetch| fetch as u64),
            plan,
            view,
            keep,
        };
        let (output, mut report, _) = self
            .launch(work, |run| {
                let (output, report) = run.execute_over(sides)?;
                Ok((output, report, Vec::new()))
            })
            .await?;
        if report.loaded.is_some() {
            report.timeline.add(SpanPhase::Load, loading, loaded);
        }
        Ok((output, report))
    }

    /// The table that a pipeline scans. `rows` contains the number of rows of each build side that the
    /// pipeline scans as its input. Rows outside of the bounds `matches` may be missing; with `None`, rows
    /// that an earlier load has left out.
    pub(super) async fn view(
        &self,
        pipeline: PipelineRef<'_>,
        plan: &PipelinePlan,
        rows: &[u64],
        matches: Option<&[KeyBounds]>,
    ) -> Result<TableView, Failure> {
        match (&pipeline.source, rows) {
            (PipelineSource::Groups(_) | PipelineSource::Windows(_), [rows]) => {
                return entries(*rows).map_err(Failure::Run);
            }
            (PipelineSource::Union(_), rows) => {
                return parts(rows).map_err(Failure::Run);
            }
            (PipelineSource::Pairs(_), [pairs]) => {
                return pairs_view(*pairs).map_err(Failure::Run);
            }
            _ => {}
        }
        let columns: Vec<usize> = plan.columns().into_iter().collect();
        if let Some(view) = self.ready.lock().kept_view(pipeline.id(), &columns) {
            return Ok(view);
        }
        let ready = self.ready.lock().view(pipeline.id(), matches);
        let view = match ready {
            Some(view) => view,
            None => {
                let left_out = matches.unwrap_or_default();
                let view = self.load(&pipeline, plan, left_out).await;
                view.map_err(Failure::Store)?
            }
        };
        self.ready.lock().keep_view(pipeline.id(), columns, &view);
        Ok(view)
    }

    /// Loads the columns that a pipeline reads from its source. Rows outside of the bounds `matches` may be
    /// left out.
    pub(super) async fn load(
        &self,
        pipeline: &Pipeline,
        plan: &PipelinePlan,
        matches: &[KeyBounds],
    ) -> Result<TableView, StoreError> {
        if matches!(pipeline.source, PipelineSource::Files { .. }) {
            self.open_page_decoder().await;
        }
        let view = load(
            self.session,
            (pipeline, plan, matches),
            self.config,
            self.context,
            self.loading(),
        )
        .await?;
        if let Some(load) = &view.loaded {
            metrics::loaded(load);
        }
        Ok(view)
    }

    /// Opens the device, if it decodes Parquet pages. A load waits for it only if the host must not decode
    /// them.
    async fn open_page_decoder(&self) {
        let engine = self.session.engine();
        if engine.opened(self.config).is_some() {
            return;
        }
        match engine.settings().get().parquet_decoding {
            ParquetDecoding::Device => drop(self.device().await),
            ParquetDecoding::Auto => {
                let (engine, config) = (Arc::clone(engine), self.config.clone());
                drop(tokio::task::spawn_blocking(move || drop(engine.device(&config))));
            }
            ParquetDecoding::Host => {}
        }
    }

    /// Runs a pipeline, on its own thread unless it is brief. `run` returns the build sides that are needed
    /// again.
    pub(super) async fn launch(
        &self,
        work: Work,
        run: impl FnOnce(&Run<'_>) -> Result<Ran, RunError> + Send + 'static,
    ) -> Result<Ran, Failure> {
        // A run that restarts drops its rows from the queue, so the other pipelines have queues of their own.
        let result = match work.pipeline == self.returns {
            true => Arc::clone(self.result),
            false => Arc::new(ResultQueue::whole()),
        };
        let job = Job {
            session: Arc::clone(self.session),
            config: self.config.clone(),
            work,
            cancelled: Arc::clone(&self.cancelled),
            result: Arc::clone(&result),
            progress: self.report.clone(),
        };
        let outcome = match job.is_brief() {
            true => result.filled_by(|| job.caught(run)),
            false => tokio::task::spawn_blocking(move || job.run(run))
                .await
                .unwrap_or_else(|error| Err(RunError::Ended(error.to_string()))),
        };
        outcome.map_err(Failure::from)
    }

    /// Reports the progress of a load.
    fn loading(&self) -> ProgressCallback {
        let report = self.report.clone();
        Arc::new(move |load: LoadProgress| {
            report.comes_to(QueryStep::Loading, load.rows_done, load.rows_total);
        })
    }

    /// Collects a build side from CPU operators, unless another run of the same plan has collected it.
    pub(super) async fn collected(
        &self,
        source: &BuildSide,
        columns: Vec<usize>,
    ) -> Result<Arc<LookupSide>, Failure> {
        let stamps = source.shared.stamps();
        if let Some(rows) = stamps.as_ref().and_then(|now| source.shared.get(now)) {
            self.report.update(|report| report.build_sides_reused += 1);
            return Ok(rows);
        }
        let collected = build_sides::collect(source, columns, self.context, self.memory).await?;
        if let (Some(rows), Some(keys)) = (source.rows_key, collected.key_range()) {
            self.session.engine().history().found_keys(rows, keys);
        }
        let collected = match self.session.engine().opened(self.config) {
            Some(device) => device.prepared().known_rows(collected),
            None => collected,
        };
        if let Some(stamps) = stamps {
            source.shared.leave(stamps, &collected);
        }
        Ok(collected)
    }

    /// Builds the build side with this number. Rows look up these `columns` in it.
    pub(super) async fn side(
        &self,
        pipeline: PipelineRef<'_>,
        number: usize,
        columns: Vec<usize>,
    ) -> Result<SideRows, Failure> {
        let source = &pipeline.build_sides[number];
        let Some(build) = source.build else {
            let at = (pipeline.id(), number);
            let ready = self.ready.lock().rows(at, &columns);
            let rows = match ready {
                Some(rows) => rows?,
                None => self.collected(source, columns.clone()).await?,
            };
            let kept = Ok(Arc::clone(&rows));
            self.ready.lock().keep_rows(at, columns, kept);
            return Ok(SideRows::Collected(rows));
        };
        if let Some(matches) = self.ready.lock().take_matches(build.pipeline) {
            return Ok(SideRows::built(matches));
        }
        let built = self.built(pipeline, number, build);
        match self.shared.of_pipeline(build.pipeline) {
            Some(shared) => shared.rows(built).await,
            None => built.await,
        }
    }

    /// Runs the pipeline of a build side.
    async fn built(
        &self,
        pipeline: PipelineRef<'_>,
        number: usize,
        build: Build,
    ) -> Result<SideRows, Failure> {
        let source = &pipeline.get().build_sides[number];
        let built = pipeline.graph().pipeline(build.pipeline);
        match self.run(built, true).await {
            Ok((Output::Built(table), report)) => {
                self.builds.lock().push(report);
                Ok(SideRows::built(*table))
            }
            Ok((Output::Returned(_), _)) => unreachable!("a build sink leaves a build side"),
            Err(failure) => Err(of_side(source, failure)),
        }
    }
}
