//! What EXPLAIN and the query report say about placement.

use super::timing::Timing;
use super::{DECISION, Decision, Grounds};
use crate::config::{DeviceChoice, GalateaConfig};
use crate::execution::GpuExec;
use crate::report::{PlanReport, QueryDevice, QueryReport};
use crate::runtime::Runtime;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use std::fmt;
use std::sync::Arc;

/// The late rule: puts a [`PlacementExec`] on top of plans that were offered to the device.
#[derive(Debug)]
pub struct AnnotatePlacement {
    runtime: Arc<Runtime>,
}

impl AnnotatePlacement {
    /// The rule of a session with that runtime.
    pub fn new(runtime: Arc<Runtime>) -> Self {
        Self { runtime }
    }
}

impl PhysicalOptimizerRule for AnnotatePlacement {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Decision {
            reasons,
            query,
            report,
            grounds,
        } = DECISION.with(|slot| std::mem::take(&mut *slot.borrow_mut()));
        // Statements such as SET leave an empty plan without columns behind; they are no query.
        if plan.schema().fields().is_empty() {
            return Ok(plan);
        }
        let config = GalateaConfig::of(options);
        let emulated = config.device == DeviceChoice::Emulated;
        let (mut placed, mut fallen) = (0, 0);
        count_placed(&plan, &mut placed, &mut fallen);
        report.update(|report| {
            *report = QueryReport::planned(placed, emulated, reasons.texts);
        });
        self.runtime.reports().record(report.clone());
        if config.device == DeviceChoice::Cpu {
            return Ok(plan);
        }
        let QueryReport { device, reasons, .. } = report.get();
        Ok(Arc::new(PlacementExec {
            input: plan,
            device,
            reasons,
            timing: query.map(|query| Timing::new(Arc::clone(&self.runtime), query, report.clone())),
            report,
            grounds,
        }))
    }

    fn name(&self) -> &str {
        "galatea_annotate_placement"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Passes its input through; its line in EXPLAIN says where the query runs and why not on the device.
#[derive(Debug)]
pub struct PlacementExec {
    input: Arc<dyn ExecutionPlan>,
    device: QueryDevice,
    reasons: Vec<String>,
    /// What notes how long it took, for the next plan of the same query.
    timing: Option<Arc<Timing>>,
    report: PlanReport,
    /// What else the plan was decided by, if that can be told later.
    grounds: Option<Grounds>,
}

/// The report of a plan, as far as it has run; none for a plan that was not offered to a device.
pub fn query_report(plan: &Arc<dyn ExecutionPlan>) -> Option<QueryReport> {
    match plan.downcast_ref::<PlacementExec>() {
        Some(placement) => Some(placement.report.get()),
        None => plan.children().into_iter().find_map(query_report),
    }
}

impl PlacementExec {
    /// Why parts of the plan stay on the CPU.
    pub fn reasons(&self) -> &[String] {
        &self.reasons
    }

    /// The plan below.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// Where the plan runs.
    pub fn device(&self) -> QueryDevice {
        self.device
    }

    /// What the plan was decided by beside the query, its tables and the settings; none where that may change
    /// with the next run.
    pub(crate) fn grounds(&self) -> Option<&Grounds> {
        self.grounds.as_ref()
    }

    /// The same node over `input`, for an execution that reports to `report`.
    pub(crate) fn renewed(&self, input: Arc<dyn ExecutionPlan>, report: &PlanReport) -> Self {
        let (mut placed, mut fallen) = (0, 0);
        count_placed(&input, &mut placed, &mut fallen);
        let emulated = self.device == QueryDevice::Emulated;
        report.update(|report| *report = QueryReport::planned(placed, emulated, self.reasons.clone()));
        Self {
            input,
            device: self.device,
            reasons: self.reasons.clone(),
            timing: self.timing.as_ref().map(|timing| timing.renewed(report.clone())),
            report: report.clone(),
            grounds: self.grounds.clone(),
        }
    }
}

impl DisplayAs for PlacementExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        if matches!(format, DisplayFormatType::TreeRender) {
            writeln!(f, "device={}", self.device)?;
            let reasons = self.reasons.join("; ");
            return if reasons.is_empty() {
                Ok(())
            } else {
                writeln!(f, "on the CPU={reasons}")
            };
        }
        write!(f, "PlacementExec: device={}", self.device)?;
        if !self.reasons.is_empty() {
            write!(f, ", on the CPU because=[{}]", self.reasons.join("; "))?;
        }
        let (mut placed, mut fallen) = (0, 0);
        count_placed(&self.input, &mut placed, &mut fallen);
        if fallen > 0 {
            write!(f, ", {fallen} of {placed} GPU subtrees fell back to the CPU")?;
        }
        Ok(())
    }
}

/// Counts the GPU subtrees of an executed plan, and those that fell back to the CPU.
fn count_placed(plan: &Arc<dyn ExecutionPlan>, placed: &mut usize, fallen: &mut usize) {
    if let Some(gpu) = plan.downcast_ref::<GpuExec>() {
        *placed += 1;
        *fallen += usize::from(gpu.fell_back());
    }
    for child in plan.children() {
        count_placed(child, placed, fallen);
    }
}

impl ExecutionPlan for PlacementExec {
    fn name(&self) -> &str {
        "PlacementExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Arc::new(Self {
            input,
            device: self.device,
            reasons: self.reasons.clone(),
            timing: self.timing.clone(),
            report: self.report.clone(),
            grounds: self.grounds.clone(),
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
        let stream = self.input.execute(partition, context)?;
        let partitions = self.properties().output_partitioning().partition_count();
        Ok(match &self.timing {
            Some(timing) => Arc::clone(timing).watch(partitions, stream),
            None => stream,
        })
    }
}
