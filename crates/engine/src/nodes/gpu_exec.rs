//! The plan node of a placed subtree.

mod task;

use task::Task;

use super::WorkRowsExec;
use crate::config::{DeviceChoice, GalateaConfig};
use crate::facts::Facts;
use crate::graph::{InputPlan, PipelineSource, Subtree};
use crate::join_order::expected_rows;
use crate::pipeline::PipelinePlan;
use crate::reason::Reason;
use crate::report::{PlanReport, RunReport};
use crate::runtime::Runtime;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, ChildrenPropertiesMode, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// Places a plan anew by what a run of it has shown, or says why it cannot.
pub type PlaceAgain =
    fn(&Arc<dyn ExecutionPlan>, &Arc<Runtime>, &GalateaConfig) -> std::result::Result<Subtree, Reason>;

/// Runs a subtree as one GPU pipeline; has one partition. Its children are the plan its rows come from,
/// unless that is a table, and the plans of its dimensions.
#[derive(Debug)]
pub struct GpuExec {
    subtree: Subtree,
    /// The subtree as DataFusion planned it, run when the pipeline turns out not to run.
    cpu: Arc<dyn ExecutionPlan>,
    runtime: Arc<Runtime>,
    config: GalateaConfig,
    place_again: PlaceAgain,
    report: PlanReport,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    last: Arc<Mutex<Option<Outcome>>>,
}

/// How the last execution ended, for EXPLAIN ANALYZE.
#[derive(Debug)]
enum Outcome {
    /// With the subtree that ran, if it is not the one that was placed.
    Ran(Box<RunReport>, Option<Box<Subtree>>),
    FellBack(String),
}

impl GpuExec {
    /// A node for `subtree`, which computes what `cpu` does.
    pub fn new(
        subtree: Subtree,
        cpu: Arc<dyn ExecutionPlan>,
        runtime: Arc<Runtime>,
        config: GalateaConfig,
        place_again: PlaceAgain,
        report: PlanReport,
    ) -> Self {
        let order = cpu.output_ordering().filter(|_| subtree.sorts()).cloned();
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new_with_orderings(cpu.schema(), order),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        Self {
            subtree,
            cpu,
            runtime,
            config,
            place_again,
            report,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
            last: Arc::default(),
        }
    }

    /// The pipeline.
    pub fn plan(&self) -> &PipelinePlan {
        &self.subtree.plan
    }

    /// The pipelines, and what feeds them.
    pub(crate) fn subtree(&self) -> &Subtree {
        &self.subtree
    }

    /// The subtree as DataFusion planned it.
    pub(crate) fn cpu(&self) -> &Arc<dyn ExecutionPlan> {
        &self.cpu
    }

    /// A node that has not been executed, for another subtree and what it stands for, which give the same
    /// rows.
    pub(crate) fn with(&self, subtree: Subtree, cpu: Arc<dyn ExecutionPlan>, report: PlanReport) -> Self {
        Self {
            subtree,
            cpu,
            runtime: Arc::clone(&self.runtime),
            config: self.config.clone(),
            place_again: self.place_again,
            report,
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
            last: Arc::default(),
        }
    }

    /// Its subtree, fed by these plans.
    pub(crate) fn subtree_over(&self, children: Vec<Arc<dyn ExecutionPlan>>) -> Subtree {
        let mut subtree = self.subtree.clone();
        for (input, new) in subtree.inputs_mut().into_iter().zip(children) {
            *input = InputPlan::new(new);
        }
        subtree
    }

    /// The report of the last execution that ran on the device.
    pub fn last_report(&self) -> Option<RunReport> {
        match &*self.last.lock() {
            Some(Outcome::Ran(report, _)) => Some(RunReport::clone(report)),
            _ => None,
        }
    }

    /// What EXPLAIN says of it; `spent`: also where the time and the bytes of the last execution went, and
    /// the rows that were expected beside those that passed.
    pub(crate) fn facts(&self, spent: bool) -> Facts {
        let last = self.last.lock();
        let subtree = match &*last {
            Some(Outcome::Ran(_, Some(subtree))) => subtree,
            _ => &self.subtree,
        };
        let mut facts = Facts::planned(subtree);
        if self.config.device == DeviceChoice::Emulated {
            facts.push("device", "emulated");
        }
        match &*last {
            None => {}
            Some(Outcome::FellBack(reason)) => facts.push("fell back to the CPU", reason),
            Some(Outcome::Ran(report, _)) => {
                // The estimate is of a scan's rows; groups and pairs of other pipelines are not comparable.
                let scans = matches!(
                    subtree.source,
                    PipelineSource::Files { .. } | PipelineSource::Stored(_) | PipelineSource::Plan(_)
                );
                let expected = (spent && scans).then(|| expected_rows(&self.cpu)).flatten();
                facts.add_run(report, &report.builds, spent, expected);
            }
        }
        facts
    }

    /// Whether the last execution had to run on the CPU.
    pub fn fell_back(&self) -> bool {
        matches!(&*self.last.lock(), Some(Outcome::FellBack(_)))
    }

    fn task(&self, context: Arc<TaskContext>) -> Task {
        Task {
            subtree: self.subtree.clone(),
            cpu: Arc::clone(&self.cpu),
            runtime: Arc::clone(&self.runtime),
            config: self.config.clone(),
            place_again: self.place_again,
            report: self.report.clone(),
            context,
            metrics: self.metrics.clone(),
            last: Arc::clone(&self.last),
        }
    }
}

impl DisplayAs for GpuExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let facts = self.facts(false);
        if matches!(format, DisplayFormatType::TreeRender) {
            let mut lines = facts.0.iter();
            return lines.try_for_each(|fact| writeln!(f, "{}={}", fact.name, fact.values()));
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
        self.subtree.children()
    }

    fn fetch(&self) -> Option<usize> {
        self.subtree.fetch
    }

    /// A pipeline that returns rows stops early; groups need every row, but only some of them are returned.
    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let subtree = Subtree {
            fetch,
            ..self.subtree.clone()
        };
        let limited = self.with(subtree, Arc::clone(&self.cpu), self.report.clone());
        Some(Arc::new(limited))
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let subtree = self.subtree_over(children);
        let cpu = WorkRowsExec::shared(&self.cpu, &subtree.children())?;
        // A step of a recursive query is an execution of the same node.
        Ok(Arc::new(Self {
            metrics: self.metrics.clone(),
            last: Arc::clone(&self.last),
            ..self.with(subtree, cpu, self.report.clone())
        }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return datafusion::common::internal_err!("GpuExec has one partition, {partition} was asked for");
        }
        let task = self.task(context);
        let schema = self.cpu.schema();
        let batches = stream::once(task.execute()).try_flatten().boxed();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
