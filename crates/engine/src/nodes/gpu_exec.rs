//! The plan node of a placed subtree.

mod doubt;
mod task;

pub(crate) use doubt::note_readers;
use task::Task;

use super::WorkRowsExec;
use crate::config::{DeviceChoice, GalateaConfig};
use crate::facts::Facts;
use crate::graph::{Edge, InputPlan, PipelineGraph};
use crate::join_order::expected_rows;
use crate::report::{PipelineId, PlanReport, RunReport};
use crate::session::Session;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt, stream};
use galatea_base::reason::Reason;
use galatea_codegen::PipelinePlan;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Places a plan again after the findings of a run, or returns why it cannot.
pub type PlaceAgain =
    fn(&Arc<dyn ExecutionPlan>, &Arc<Session>, &GalateaConfig) -> std::result::Result<PipelineGraph, Reason>;

/// Runs a subtree as GPU pipelines; has one partition. Its children are the plans of CPU operators that feed
/// the pipelines.
#[derive(Debug)]
pub struct GpuExec {
    graph: PipelineGraph,
    /// The subtree as DataFusion planned it, for a fallback to the CPU.
    cpu: Arc<dyn ExecutionPlan>,
    session: Arc<Session>,
    config: GalateaConfig,
    place_again: PlaceAgain,
    report: PlanReport,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    last: Arc<Mutex<Option<Outcome>>>,
    /// Whether the operators above read all of its rows; false until the plan is finished.
    reads_all: Arc<AtomicBool>,
}

/// A pipeline as a node of a plan's graph.
pub(crate) struct DescribedPipeline {
    pub(crate) id: PipelineId,
    /// Its edges, by build side.
    pub(crate) edges: Vec<Edge>,
    /// The plans of CPU operators that feed it.
    pub(crate) inputs: Vec<Arc<dyn ExecutionPlan>>,
    pub(crate) facts: Facts,
    /// The report of its run, without those of other pipelines.
    pub(crate) report: Option<RunReport>,
}

/// The result of the last execution, for EXPLAIN ANALYZE.
#[derive(Debug)]
enum Outcome {
    /// It ran on the device; with the graph that ran, if it is not the one that was placed.
    Ran(Box<RunReport>, Option<Box<PipelineGraph>>),
    FellBack(String),
}

impl GpuExec {
    /// A node for `graph`, which computes the same as `cpu`.
    pub fn new(
        graph: PipelineGraph,
        cpu: Arc<dyn ExecutionPlan>,
        session: Arc<Session>,
        config: GalateaConfig,
        place_again: PlaceAgain,
        report: PlanReport,
    ) -> Self {
        let order = cpu.output_ordering().filter(|_| graph.root().sorts()).cloned();
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new_with_orderings(cpu.schema(), order),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        Self {
            graph,
            cpu,
            session,
            config,
            place_again,
            report,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
            last: Arc::default(),
            reads_all: Arc::default(),
        }
    }

    /// The plan of the pipeline that returns its rows.
    pub fn plan(&self) -> &PipelinePlan {
        &self.graph.root().get().plan
    }

    /// The graph of its pipelines and their inputs.
    pub(crate) fn graph(&self) -> &PipelineGraph {
        &self.graph
    }

    /// The subtree as DataFusion planned it.
    pub(crate) fn cpu(&self) -> &Arc<dyn ExecutionPlan> {
        &self.cpu
    }

    /// A node that has not been executed, for another graph and CPU plan of the same rows.
    pub(crate) fn with(&self, graph: PipelineGraph, cpu: Arc<dyn ExecutionPlan>, report: PlanReport) -> Self {
        Self {
            graph,
            cpu,
            session: Arc::clone(&self.session),
            config: self.config.clone(),
            place_again: self.place_again,
            report,
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
            last: Arc::default(),
            reads_all: Arc::new(AtomicBool::new(self.reads_all.load(Ordering::Relaxed))),
        }
    }

    /// Its graph, fed by these plans.
    pub(crate) fn graph_over(&self, children: Vec<Arc<dyn ExecutionPlan>>) -> PipelineGraph {
        let mut graph = self.graph.clone();
        for (input, new) in graph.inputs_mut().into_iter().zip(children) {
            *input = InputPlan::new(new);
        }
        graph
    }

    /// The report of the last execution that ran on the device.
    pub fn last_report(&self) -> Option<RunReport> {
        match &*self.last.lock() {
            Some(Outcome::Ran(report, _)) => Some(RunReport::clone(report)),
            _ => None,
        }
    }

    /// Its facts in EXPLAIN; `spent`: also the time and the bytes of the last execution, and the estimated
    /// rows beside the actual ones.
    pub(crate) fn facts(&self, spent: bool) -> Facts {
        let last = self.last.lock();
        let (graph, report) = match &*last {
            Some(Outcome::Ran(report, Some(graph))) => (&**graph, Some(report)),
            Some(Outcome::Ran(report, None)) => (&self.graph, Some(report)),
            _ => (&self.graph, None),
        };
        let several = graph.pipelines().count() > 1;
        let mut facts = Facts::default();
        for pipeline in graph.pipelines() {
            if several {
                facts.push("pipeline", &pipeline.id().to_string());
            }
            facts.extend(Facts::planned(pipeline));
            let is_root = pipeline.id() == graph.root_id();
            if is_root && self.config.device == DeviceChoice::Emulated {
                facts.push("device", "emulated");
            }
            if let Some(report) = report.and_then(|report| report.of(pipeline.id())) {
                // The estimate is of a scan's rows; groups and matches of other pipelines are not comparable.
                let scans = is_root && pipeline.edges().any(|edge| edge == Edge::Scan);
                let expected = (spent && scans).then(|| expected_rows(&self.cpu)).flatten();
                facts.add_run(report, spent, expected);
            }
        }
        if let Some(Outcome::FellBack(reason)) = &*last {
            facts.push("fell back to the CPU", reason);
        }
        facts
    }

    /// Its pipelines after the last execution, in execution order, with the plans that feed each.
    pub(crate) fn pipelines(&self) -> Vec<DescribedPipeline> {
        let last = self.last.lock();
        let (graph, report) = match &*last {
            Some(Outcome::Ran(report, Some(graph))) => (&**graph, Some(report)),
            Some(Outcome::Ran(report, None)) => (&self.graph, Some(report)),
            _ => (&self.graph, None),
        };
        let described = graph.pipelines().map(|pipeline| {
            let mut facts = Facts::planned(pipeline);
            let report = report.and_then(|report| report.of(pipeline.id()));
            if let Some(report) = report {
                facts.add_run(report, false, None);
            }
            if let Some(Outcome::FellBack(reason)) = &*last
                && pipeline.id() == graph.root_id()
            {
                facts.push("fell back to the CPU", reason);
            }
            DescribedPipeline {
                id: pipeline.id(),
                edges: pipeline.edges().collect(),
                inputs: pipeline.inputs().map(|input| Arc::clone(input.shown())).collect(),
                facts,
                report: report.map(|report| RunReport {
                    builds: Vec::new(),
                    ..report.clone()
                }),
            }
        });
        described.collect()
    }

    /// Whether the last execution had to run on the CPU.
    pub fn fell_back(&self) -> bool {
        matches!(&*self.last.lock(), Some(Outcome::FellBack(_)))
    }

    fn task(&self, context: Arc<TaskContext>) -> Task {
        Task {
            graph: self.graph.clone(),
            cpu: Arc::clone(&self.cpu),
            session: Arc::clone(&self.session),
            config: self.config.clone(),
            place_again: self.place_again,
            report: self.report.clone(),
            context,
            metrics: self.metrics.clone(),
            last: Arc::clone(&self.last),
            reads_all: self.reads_all.load(Ordering::Relaxed),
        }
    }
}

impl DisplayAs for GpuExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let facts = self.facts(false);
        if matches!(format, DisplayFormatType::TreeRender) {
            // DataFusion keeps only one line for each name.
            let mut pipeline = String::new();
            return facts.0.iter().try_for_each(|fact| match fact.name {
                "pipeline" => {
                    pipeline = format!("{} ", fact.values());
                    Ok(())
                }
                name => writeln!(f, "{pipeline}{name}={}", fact.values()),
            });
        }
        write!(f, "GpuExec: {facts}")
    }
}

impl ExecutionPlan for GpuExec {
    fn name(&self) -> &str {
        "GpuExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.graph.children()
    }

    fn fetch(&self) -> Option<usize> {
        self.graph.root().fetch
    }

    /// A pipeline that returns rows stops early; groups need every row, but only some of them are returned.
    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let mut graph = self.graph.clone();
        graph.root_mut().fetch = fetch;
        let limited = self.with(graph, Arc::clone(&self.cpu), self.report.clone());
        Some(Arc::new(limited))
    }

    galatea_store::no_expressions!();

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let graph = self.graph_over(children);
        let cpu = WorkRowsExec::shared(&self.cpu, &graph.children())?;
        // Each step of a recursive query is an execution of the same node.
        Ok(Arc::new(Self {
            metrics: self.metrics.clone(),
            last: Arc::clone(&self.last),
            ..self.with(graph, cpu, self.report.clone())
        }))
    }

    galatea_store::with_new_children!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        galatea_store::check_partition(self, partition)?;
        let task = self.task(context);
        let schema = self.cpu.schema();
        let batches = stream::once(task.execute()).try_flatten().boxed();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
