//! One execution of a GPU subtree: on the device, with another subtree if the data require it, or on the CPU.

use super::Outcome;
use super::doubt::Doubt;
use crate::checks::{CommonExpressions, call_of_column};
use crate::config::{Fallback, GalateaConfig};
use crate::device::RunError;
use crate::execution::attempt::{LastResort, LastStep, repeat_async};
use crate::execution::error::Failure;
use crate::execution::executor::Executor;
use crate::execution::shared_builds::SharedBuilds;
use crate::execution::source::store_error;
use crate::facts::ByteCount;
use crate::graph::{InputPlan, PipelineGraph, PlanKey, renewed_host};
use crate::metrics;
use crate::metrics::PipelineOutcome;
use crate::nodes::{GpuExec, PlaceAgain};
use crate::report::{PlanReport, RunReport};
use crate::results::queue::ResultQueue;
use crate::session::Session;
use arrow::array::RecordBatch;
use datafusion::common::{Result, exec_datafusion_err, internal_err};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::metrics::{
    ExecutionPlanMetricsSet, MetricBuilder, MetricCategory, MetricValue,
};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions, execute_stream,
};
use futures::future::{self, BoxFuture, Either, poll_fn};
use futures::{FutureExt, Stream, StreamExt, TryStreamExt, stream};
use galatea_base::reason::Reason;
use galatea_expression::{Raised, RowError};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of times that one execution places its subtree again: each time one more build side has
/// been refused.
const MAX_PLACEMENTS: usize = 16;

/// One execution.
#[derive(Clone)]
pub(super) struct Task {
    pub(super) graph: PipelineGraph,
    pub(super) cpu: Arc<dyn ExecutionPlan>,
    pub(super) session: Arc<Session>,
    pub(super) config: GalateaConfig,
    pub(super) place_again: PlaceAgain,
    pub(super) report: PlanReport,
    pub(super) context: Arc<TaskContext>,
    pub(super) metrics: ExecutionPlanMetricsSet,
    pub(super) last: Arc<Mutex<Option<Outcome>>>,
    pub(super) reads_all: bool,
}

/// Cancels a run on another thread when its stream is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A task, and the number of times that its subtree was placed again.
struct Placed {
    task: Task,
    times: usize,
}

impl Placed {
    /// The task with another graph for its subtree.
    fn again(self, graph: PipelineGraph) -> Self {
        Self {
            task: Task { graph, ..self.task },
            times: self.times + 1,
        }
    }
}

/// A task after its run on the device.
struct Ended {
    task: Task,
    outcome: Result<RunReport, Failure>,
    /// Whether it ran another subtree than the one that was placed.
    placed_again: bool,
}

impl Ended {
    /// The rows, from the device or else from the CPU; none has been read yet.
    fn rows(self, queue: Arc<ResultQueue>) -> Result<SendableRecordBatchStream> {
        match self.outcome {
            Ok(report) => {
                let rows = stream::iter(std::iter::from_fn(move || queue.next())).map(Ok);
                let rows = self.task.returned(rows);
                self.task.ran(report, self.placed_again);
                Ok(rows)
            }
            Err(failure) => self.task.failed(failure),
        }
    }

    /// Fails the query if the run failed, because some rows have been read.
    fn after_rows(self) -> Result<()> {
        match self.outcome {
            Ok(report) => {
                self.task.ran(report, self.placed_again);
                Ok(())
            }
            Err(failure @ Failure::Run(RunError::Cancelled)) => Err(self.task.error(failure)),
            Err(failure @ Failure::Run(RunError::Raised(_))) => {
                metrics::ended(PipelineOutcome::Failed);
                Err(self.task.error(failure))
            }
            Err(failure) => {
                metrics::ended(PipelineOutcome::Failed);
                let late = RunError::Late(failure.to_string());
                Err(DataFusionError::External(Box::new(late)))
            }
        }
    }
}

impl Task {
    /// The rows: once the run has ended, or while it continues if they are many.
    pub(super) async fn execute(self) -> Result<SendableRecordBatchStream> {
        let limit = self.config.result_bytes();
        let queue = Arc::new(ResultQueue::new(limit, self.reservation("result")));
        let returned = self.clone();
        let run = self.run(Arc::clone(&queue)).boxed();
        let first = future::select(run, poll_fn(|context| queue.poll_next(context))).await;
        match first {
            Either::Left((ended, _)) => ended.rows(queue),
            Either::Right((batch, run)) => {
                let rest = stream::try_unfold(Some(run), move |run| next(run, Arc::clone(&queue)));
                Ok(returned.returned(stream::once(future::ok(batch)).chain(rest)))
            }
        }
    }

    /// Runs the subtree, and replaces it by others if a build side is refused.
    async fn run(self, queue: Arc<ResultQueue>) -> Ended {
        let run = |placed: Box<Placed>| {
            let queue = Arc::clone(&queue);
            let outcome = async move {
                match placed.task.on_device(&queue).await {
                    Ok(report) => Ok((placed, report)),
                    Err(failure) => Err((placed, Box::new(failure))),
                }
            };
            outcome.boxed()
        };
        let next = |placed: Box<Placed>, failure: Box<Failure>| {
            let graph = Some(&placed.task)
                .filter(|_| placed.times < MAX_PLACEMENTS && queue.restart_all())
                .and_then(|task| task.place_again(&failure));
            match graph {
                Some(graph) => Ok(Box::new(placed.again(graph))),
                None => Err((placed, failure)),
            }
        };
        let first = Box::new(Placed { task: self, times: 0 });
        let (placed, outcome) = match repeat_async(first, run, next).await {
            Ok((placed, report)) => (placed, Ok(report)),
            Err((placed, failure)) => (placed, Err(*failure)),
        };
        Ended {
            placed_again: placed.times > 0,
            task: placed.task,
            outcome,
        }
    }

    /// A stream of those rows, in batches of the session's batch size.
    fn returned(
        &self,
        rows: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
    ) -> SendableRecordBatchStream {
        let size = self.context.session_config().batch_size();
        let mut left = self.graph.root().fetch.unwrap_or(usize::MAX);
        let pieces = rows
            .map_ok(move |batch| {
                let kept = batch.slice(0, left.min(batch.num_rows()));
                left -= kept.num_rows();
                stream::iter(slices(&kept, size)).map(Ok)
            })
            .try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(self.cpu.schema(), pieces))
    }

    /// Records that the device has computed all rows.
    fn ran(self, report: RunReport, placed_again: bool) {
        metrics::ended(PipelineOutcome::Device);
        if let Some(shape) = self.graph.root().shape {
            let returned = self.graph.root().fetch.is_none().then_some(report.rows_returned);
            self.session.engine().history().pipeline_ran(shape, returned);
        }
        self.record(&report);
        let graph = placed_again.then(|| Box::new(self.graph));
        *self.last.lock() = Some(Outcome::Ran(Box::new(report), graph));
    }

    /// The rows of a subtree after its last attempt on the device failed before a row was read.
    fn failed(&self, failure: Failure) -> Result<SendableRecordBatchStream> {
        let doubt = match &failure {
            Failure::Run(RunError::Raised(raised)) => self.doubt(raised),
            _ => None,
        };
        let root = self.graph.root();
        let step = LastStep::after(
            &failure,
            LastResort {
                sorts: root.sorts() && !root.is_whole(),
                is_doubted: doubt.is_some(),
                may_fall_back: self.config.fallback != Fallback::Error,
            },
        );
        let is_cancelled = matches!(failure, Failure::Run(RunError::Cancelled));
        let rows = match step {
            LastStep::Fail => Err(self.error(failure)),
            LastStep::SortOnHost => self.sort_on_host(failure),
            LastStep::RunOnHost => self.run_on_host(&failure, doubt),
        };
        // The executor has counted a cancelled pipeline.
        if !is_cancelled {
            metrics::ended(match &rows {
                Err(_) => PipelineOutcome::Failed,
                Ok(_) => PipelineOutcome::FellBack,
            });
        }
        rows
    }

    /// The error of the query.
    fn error(&self, failure: Failure) -> DataFusionError {
        match failure {
            Failure::Store(error) => store_error(error),
            Failure::Run(RunError::Cancelled) => exec_datafusion_err!("the query was cancelled"),
            Failure::Run(RunError::Raised(raised)) => self.row_error(&raised).into(),
            Failure::Run(error) => DataFusionError::External(Box::new(error)),
            Failure::BuildSide(_, reason) => DataFusionError::External(Box::new(reason)),
            Failure::Pool(error) | Failure::Input(error) => error,
        }
    }

    /// The error of a row, with the expression as the plan of the CPU writes it.
    fn row_error(&self, raised: &Raised) -> RowError {
        let common = CommonExpressions::of(&self.cpu);
        let raised = raised.clone().of_call(|column| call_of_column(&self.cpu, column));
        raised.into_row_error(&|expression| common.shown(expression))
    }

    /// Runs the graph of the subtree; its rows are added to the queue.
    async fn on_device(&self, queue: &Arc<ResultQueue>) -> Result<RunReport, Failure> {
        let build = self.reservation("build side");
        let cancelled = Arc::new(AtomicBool::new(false));
        let _guard = CancelOnDrop(Arc::clone(&cancelled));
        let executor = Executor {
            session: &self.session,
            config: &self.config,
            context: &self.context,
            report: &self.report,
            memory: &build,
            cancelled,
            result: queue,
            returns: self.graph.root_id(),
            builds: Mutex::default(),
            ready: Arc::default(),
            shared: SharedBuilds::default(),
        };
        executor.return_rows(&self.graph).await
    }

    /// The subtree as it is placed once a refused build side is known, if that is why it failed: the build
    /// side may be built in another way.
    fn place_again(&self, failure: &Failure) -> Option<PipelineGraph> {
        let of_side = matches!(failure, Failure::BuildSide(..));
        let (shape, reason) = self.refusal(failure).filter(|_| of_side)?;
        self.session.engine().history().refuse(shape, reason);
        // Its nodes may have run already.
        let plan = renewed_host(&self.cpu).ok()?;
        let placed = (self.place_again)(&plan, &self.session, &self.config);
        let mut found = placed
            .inspect_err(|reason| tracing::debug!(%reason, "a subtree is not replanned"))
            .ok()?;
        self.finish_inputs(&mut found).ok()?;
        found.root_mut().fetch = self.graph.root().fetch_in_any_order();
        Some(found)
    }

    /// The reason of a failure that the next run of the same pipeline over the same data would repeat, with
    /// the key of the plan.
    fn refusal(&self, failure: &Failure) -> Option<(PlanKey, Reason)> {
        match failure {
            Failure::Run(RunError::Unsupported(Reason::Device { .. })) => None,
            Failure::Run(RunError::Unsupported(reason)) => Some((self.graph.root().shape?, reason.clone())),
            Failure::BuildSide(shape, reason) => Some(((*shape)?, reason.clone())),
            _ => None,
        }
    }

    /// Why the CPU may not raise the error that a row raised on the device.
    fn doubt(&self, raised: &Raised) -> Option<Doubt> {
        Doubt::of(
            raised,
            &self.cpu,
            self.reads_all && self.graph.root().fetch.is_none(),
        )
    }

    /// A reservation in the session's memory, empty at first.
    fn reservation(&self, of: &str) -> MemoryReservation {
        MemoryConsumer::new(format!("GpuExec {of}")).register(self.context.memory_pool())
    }

    /// Runs the subtree on DataFusion's operators.
    fn run_on_host(&self, failure: &Failure, doubt: Option<Doubt>) -> Result<SendableRecordBatchStream> {
        let reason = match doubt {
            Some(doubt) => format!("{doubt}: {failure}"),
            None => failure.to_string(),
        };
        self.remember(failure);
        // A compiler's message contains the whole program: it is logged, and the user gets its beginning.
        tracing::warn!(reason, "a GPU pipeline falls back to the CPU");
        let reason: String = reason.lines().take(3).collect::<Vec<_>>().join("; ");
        let before = self.last.lock().replace(Outcome::FellBack(reason.clone()));
        // A plan that runs again falls back again: that counts as one subtree.
        if !matches!(before, Some(Outcome::FellBack(_))) {
            self.report.update(|report| report.falls_back(&reason));
        }
        // Its nodes may have run already, as the source of the pipeline: a copy has all of its inputs again.
        self.execute_host(renewed_host(&self.cpu)?)
    }

    /// Records a refusal of the device, so that the next run of the same pipeline over the same data does not
    /// retry it.
    fn remember(&self, failure: &Failure) {
        if let Some((shape, refused)) = self.refusal(failure) {
            self.session.engine().history().refuse(shape, refused);
        }
    }

    /// Runs the subtree without its order on the device, and sorts its rows on the CPU.
    fn sort_on_host(&self, failure: Failure) -> Result<SendableRecordBatchStream> {
        let Ok(sorted) = self.over_unsorted_rows(&renewed_host(&self.cpu)?) else {
            return match self.config.fallback {
                Fallback::Error => Err(self.error(failure)),
                Fallback::Allow => self.run_on_host(&failure, None),
            };
        };
        self.remember(&failure);
        let reason = format!("the order alone: {failure}");
        tracing::warn!(reason, "the CPU sorts the rows of a GPU pipeline");
        *self.last.lock() = Some(Outcome::FellBack(reason));
        self.execute_host(sorted)
    }

    /// The plan of the CPU, with the input of its sort on the device. A projection may be above the sort, and
    /// then the graph of this subtree lacks the keys: the input is placed anew.
    fn over_unsorted_rows(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let children = plan.children();
        let [input] = children.as_slice() else {
            return internal_err!("{} is above no sort", plan.name());
        };
        let input = match plan.is::<SortExec>() {
            true => self.unsorted_rows(input)?,
            false => self.over_unsorted_rows(input)?,
        };
        let changed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Arc::clone(plan).replace_children(vec![input], changed)
    }

    /// The node that computes the rows of `plan` on the device.
    fn unsorted_rows(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let placed = (self.place_again)(plan, &self.session, &self.config);
        let mut graph = placed.map_err(|reason| DataFusionError::External(Box::new(reason)))?;
        self.finish_inputs(&mut graph)?;
        let (session, config) = (Arc::clone(&self.session), self.config.clone());
        let report = self.report.clone();
        let rows = GpuExec::new(graph, Arc::clone(plan), session, config, self.place_again, report);
        Ok(Arc::new(rows))
    }

    /// Completes the plans whose rows the graph reads.
    fn finish_inputs(&self, graph: &mut PipelineGraph) -> Result<()> {
        for input in graph.inputs_mut() {
            let plan = Arc::clone(input.plan());
            *input = InputPlan::new(self.session.finished(plan, &self.context)?);
        }
        Ok(())
    }

    /// Runs the equivalent of the pipeline on the CPU.
    fn execute_host(&self, fresh: Arc<dyn ExecutionPlan>) -> Result<SendableRecordBatchStream> {
        let limited: Arc<dyn ExecutionPlan> = match self.graph.root().fetch {
            Some(fetch) if !self.graph.root().sorts() => {
                let one: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(fresh));
                Arc::new(GlobalLimitExec::new(one, 0, Some(fetch)))
            }
            _ => fresh,
        };
        let mut plan = self.session.finished(limited, &self.context)?;
        if let (true, Some(order)) = (self.graph.root().sorts(), plan.output_ordering().cloned()) {
            let merged = SortPreservingMergeExec::new(order, plan);
            plan = Arc::new(merged.with_fetch(self.graph.root().fetch));
        }
        execute_stream(plan, Arc::clone(&self.context))
    }

    fn record(&self, main: &RunReport) {
        let mut report = main.clone();
        main.builds.iter().for_each(|build| report.add(build));
        let count = |name: &'static str, value: u64| {
            MetricBuilder::new(&self.metrics)
                .counter(name, 0)
                .add(usize::try_from(value).unwrap_or(usize::MAX));
        };
        let bytes = |name: &'static str, value: u64| {
            let value = Arc::new(ByteCount::new(value));
            MetricBuilder::new(&self.metrics)
                .with_category(MetricCategory::Bytes)
                .build(MetricValue::Custom {
                    name: name.into(),
                    value,
                });
        };
        let time = |name: &'static str, value: std::time::Duration| {
            MetricBuilder::new(&self.metrics)
                .subset_time(name, 0)
                .add_duration(value);
        };
        let rows = usize::try_from(main.rows_returned).unwrap_or(usize::MAX);
        MetricBuilder::new(&self.metrics).output_rows(0).add(rows);
        count("rows_scanned", report.rows);
        count("rows_passed", report.rows_passed);
        count("chunks", report.chunks as u64);
        count("chunks_skipped", report.chunks_skipped as u64);
        bytes("device_bytes", report.device_bytes);
        bytes("link_bytes", report.link_bytes);
        count("launches", report.launches as u64);
        time("generate_time", report.generate);
        time("compile_time", report.compile);
        time("transfer_time", report.transfer);
        time("kernel_time", report.kernel);
        time("run_time", report.total);
        self.report.update(|query| {
            query.phases.compile += report.generate + report.compile;
            query.phases.transfer += report.transfer;
            query.phases.kernel += report.kernel;
            query.device_bytes += report.device_bytes;
            query.link_bytes += report.link_bytes;
        });
    }
}

/// The next batch of a run: while it continues, or after it has ended.
async fn next(
    run: Option<BoxFuture<'static, Ended>>,
    queue: Arc<ResultQueue>,
) -> Result<Option<(RecordBatch, Option<BoxFuture<'static, Ended>>)>> {
    if let Some(run) = run {
        match future::select(run, poll_fn(|context| queue.poll_next(context))).await {
            Either::Right((batch, run)) => return Ok(Some((batch, Some(run)))),
            Either::Left((ended, _)) => ended.after_rows()?,
        }
    }
    Ok(queue.next().map(|batch| (batch, None)))
}

/// Slices of at most `size` rows.
fn slices(batch: &RecordBatch, size: usize) -> Vec<RecordBatch> {
    let size = size.max(1);
    (0..batch.num_rows())
        .step_by(size)
        .map(|at| batch.slice(at, size.min(batch.num_rows() - at)))
        .collect()
}
