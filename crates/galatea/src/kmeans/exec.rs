//! The plan node that clusters its input.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, Float64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, Gauge, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};
use galatea_engine::config::{DeviceChoice, Fallback, GalateaConfig};
use galatea_engine::engine::Engine;
use galatea_engine::report::{EndOffer, PlanReport, QueryReport, QueryStep};
use galatea_kmeans::{DeviceKMeans, KMeans, KMeansError, Model, OnStop, Points, Progress};
use parking_lot::Mutex;

use super::Function;
use super::collect::{self, Rows, failed};

/// The parameters of a node except its input.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) function: Function,
    pub(super) settings: KMeans,
    pub(super) features: Vec<usize>,
    pub(super) schema: SchemaRef,
    pub(super) engine: Arc<Engine>,
}

/// Reads and clusters its input, and returns centroids, or the rows with labels, in one partition.
#[derive(Debug)]
pub(super) struct KMeansExec {
    task: Task,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// The device of the last execution, for EXPLAIN ANALYZE.
    ran: Arc<Mutex<Option<String>>>,
}

impl KMeansExec {
    pub(super) fn new(task: Task, input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&task.schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        Self {
            task,
            input,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
            ran: Arc::default(),
        }
    }
}

impl DisplayAs for KMeansExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let schema = self.input.schema();
        let features = self
            .task
            .features
            .iter()
            .map(|column| schema.field(*column).name().as_str());
        let features: Vec<&str> = features.collect();
        let name = self.task.function.name();
        write!(
            f,
            "KMeansExec: {name}, k={}, features=[{}]",
            self.task.settings.clusters,
            features.join(", ")
        )?;
        match &*self.ran.lock() {
            Some(ran) => write!(f, ", ran on {ran}"),
            None => Ok(()),
        }
    }
}

/// Stops the clustering when the stream is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One execution, on a separate thread.
struct Execution {
    task: Task,
    config: GalateaConfig,
    rows: Rows,
    cancelled: Arc<AtomicBool>,
    iterations: Gauge,
    report: Option<Arc<PlanReport>>,
    /// Keeps the centroids when the statement is requested to end.
    end: Option<EndOffer>,
    ran: Arc<Mutex<Option<String>>>,
}

impl Execution {
    fn name(&self) -> &'static str {
        self.task.function.name()
    }

    fn goes_on(&self) -> Result<()> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(failed(self.name(), &KMeansError::Cancelled { iterations: 0 }));
        }
        Ok(())
    }

    fn run(mut self) -> Result<Vec<RecordBatch>> {
        let labels = self.task.function == Function::Labels;
        let all: Vec<usize> = (0..self.task.features.len()).collect();
        // For centroids, only features were kept.
        let columns = if labels { &self.task.features } else { &all };
        let rows: usize = self.rows.batches.iter().map(RecordBatch::num_rows).sum();
        self.rows.grow(4 * (rows * columns.len()) as u64)?;
        let points = collect::points(self.name(), &self.rows.batches, columns, &|| self.goes_on())?;
        let points = points.filter(|points| !points.is_empty());
        let points = points.ok_or_else(|| failed(self.name(), &KMeansError::NoPoints))?;
        if !labels {
            self.rows.batches.clear();
        }
        let model = self.fit(&points, labels)?;
        // The query was cancelled, not merely requested to end.
        self.goes_on()?;
        match self.task.function {
            Function::Clusters => Ok(vec![self.clusters(&model)?]),
            Function::Labels => self.labelled(&model),
        }
    }

    /// Runs on the device if one is usable; otherwise, or after a refusal, on the CPU.
    fn fit(&self, points: &Points, labels: bool) -> Result<Model> {
        let reason = match self.on_device(points, labels) {
            Ok(Ok(model)) => {
                let emulated = self.config.device == DeviceChoice::Emulated;
                self.reports(|report| report.ran_on_device(emulated));
                *self.ran.lock() = Some(
                    if emulated {
                        "the emulated device"
                    } else {
                        "the device"
                    }
                    .to_owned(),
                );
                return Ok(model);
            }
            Ok(Err(reason)) => reason,
            Err(error) => return Err(failed(self.name(), &error)),
        };
        if self.config.fallback == Fallback::Error && self.config.device != DeviceChoice::Cpu {
            return Err(DataFusionError::Execution(format!(
                "{}: the device cannot run it: {reason}\nhint: SET galatea.fallback = 'allow' runs it on the CPU",
                self.name()
            )));
        }
        *self.ran.lock() = Some(format!("the CPU because {reason}"));
        self.reports(|report| report.reasons.push(format!("{}: {reason}", self.name())));
        let fitted = self
            .task
            .settings
            .fit_with(points, None, labels, &mut |progress| self.tell(progress));
        fitted.map_err(|error| failed(self.name(), &error))
    }

    fn reports(&self, change: impl FnOnce(&mut QueryReport)) {
        if let Some(report) = &self.report {
            report.update(change);
        }
    }

    /// Records the progress. Returns false after cancellation or a request to end.
    fn tell(&self, progress: Progress) -> bool {
        self.iterations.set(progress.iteration as usize);
        if let Some(report) = &self.report {
            let most = self.task.settings.max_iter.into();
            report.comes_to(QueryStep::Clustering, progress.iteration.into(), Some(most));
        }
        let ends = self.end.as_ref().is_some_and(EndOffer::is_accepted);
        !ends && !self.cancelled.load(Ordering::Relaxed)
    }

    /// The inner error is the reason for running on the CPU.
    fn on_device(&self, points: &Points, labels: bool) -> Result<Result<Model, String>, KMeansError> {
        let (engine, config) = (&self.task.engine, &self.config);
        let device = match engine.usable(config).and_then(|()| engine.device(config)) {
            Ok(device) => device,
            Err(reason) => return Ok(Err(reason.to_string())),
        };
        let least = config.min_rows.0;
        if config.device == DeviceChoice::Auto && points.len() < least {
            return Ok(Err(format!(
                "there are fewer points than galatea.tuning.min_rows = {least}"
            )));
        }
        let fitted = DeviceKMeans::new(device.memory(), device.machine()).and_then(|on| {
            let tell = &mut |progress| self.tell(progress);
            self.task.settings.fit_with(points, Some(&on), labels, tell)
        });
        match fitted {
            Ok(model) => Ok(Ok(model)),
            Err(
                error @ (KMeansError::Features { .. }
                | KMeansError::NoShape { .. }
                | KMeansError::Memory { .. }
                | KMeansError::Device(_)),
            ) => {
                let text = error.to_string();
                tracing::warn!(%error, "k-means runs on the CPU");
                Ok(Err(text.lines().next().unwrap_or_default().to_owned()))
            }
            Err(error) => Err(error),
        }
    }

    fn clusters(&self, model: &Model) -> Result<RecordBatch> {
        let k = model.sizes.len();
        let feature = |f: usize| model.centroids.iter().skip(f).step_by(model.features).copied();
        let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt32Array::from_iter_values(0..k as u32))];
        for f in 0..model.features {
            columns.push(Arc::new(Float64Array::from_iter_values(feature(f))));
        }
        columns.push(Arc::new(UInt64Array::from(model.sizes.clone())));
        columns.push(Arc::new(Float64Array::from(vec![model.inertia; k])));
        columns.push(Arc::new(UInt32Array::from(vec![model.n_iter; k])));
        Ok(RecordBatch::try_new(Arc::clone(&self.task.schema), columns)?)
    }

    fn labelled(&self, model: &Model) -> Result<Vec<RecordBatch>> {
        let labels = model.labels.as_ref().map(galatea_kmeans::Labels::iter);
        let mut labels = labels.into_iter().flatten();
        let labelled = self.rows.batches.iter().map(|batch| {
            let mut columns = batch.columns().to_vec();
            let some = labels.by_ref().take(batch.num_rows());
            columns.push(Arc::new(UInt32Array::from_iter_values(some)));
            Ok(RecordBatch::try_new(Arc::clone(&self.task.schema), columns)?)
        });
        labelled.collect()
    }
}

impl ExecutionPlan for KMeansExec {
    fn name(&self) -> &str {
        "KMeansExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    galatea_store::one_child!(self.input, |input| Arc::new(Self::new(self.task.clone(), input)));
    galatea_store::no_expressions!();

    fn execute(&self, _partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let cancelled = Arc::new(AtomicBool::new(false));
        let guard = CancelOnDrop(Arc::clone(&cancelled));
        let (task, input, ran) = (self.task.clone(), Arc::clone(&self.input), Arc::clone(&self.ran));
        let iterations = MetricBuilder::new(&self.metrics).gauge("iterations", 0);
        let output_rows = MetricBuilder::new(&self.metrics).output_rows(0);
        let config = GalateaConfig::of(context.session_config().options());
        let batches = async move {
            let keep = (task.function == Function::Clusters).then(|| task.features.clone());
            let rows = collect::rows(&input, &context, keep).await?;
            let report = PlanReport::of(&context);
            let keeps = task.settings.on_stop == OnStop::Keep;
            let execution = Execution {
                end: report.as_ref().filter(|_| keeps).map(|report| report.offer_end()),
                task,
                config,
                rows,
                cancelled,
                iterations,
                report,
                ran,
            };
            let batches = tokio::task::spawn_blocking(move || execution.run()).await;
            let batches = batches.map_err(|error| DataFusionError::External(Box::new(error)))??;
            output_rows.add(batches.iter().map(RecordBatch::num_rows).sum());
            Ok::<_, DataFusionError>(stream::iter(batches.into_iter().map(Ok)))
        };
        let stream = stream::once(batches).try_flatten().map(move |batch| {
            // Lives as long as the stream.
            let _ = &guard;
            batch
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.task.schema),
            stream,
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
