//! The root node of plans that were offered to the device. It shows the placement in EXPLAIN and in the query
//! report.

use super::decision::{Decision, GpuState, PlacementInputs};
use super::nodes::has_rows;
use super::timing::Timing;
use crate::engine::Engine;
use crate::nodes::GpuExec;
use crate::report::{PlanReport, QueryDevice, QueryReport};
use crate::session::Session;
use crate::stream::GpuStreamExec;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// Passes its input through. Its line in EXPLAIN shows where the query runs and why not on the device.
#[derive(Debug, Clone)]
pub struct PlacementExec {
    input: Arc<dyn ExecutionPlan>,
    /// Where the plan was expected to run.
    planned: QueryDevice,
    decision: Decision,
    /// Records how long it took, for the next plan of the same query.
    timing: Option<Arc<Timing>>,
}

/// The report of a plan on its execution so far; `None` for a plan that was not offered to a device.
pub fn query_report(plan: &Arc<dyn ExecutionPlan>) -> Option<QueryReport> {
    match plan.downcast_ref::<PlacementExec>() {
        Some(placement) => Some(placement.report().get()),
        None => plan.children().into_iter().find_map(query_report),
    }
}

impl PlacementExec {
    /// A node over a plan with this decision, before other rules have changed the plan.
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, decision: Decision) -> Self {
        Self {
            input,
            planned: QueryDevice::Cpu,
            decision,
            timing: None,
        }
    }

    /// The same node over the finished plan; `emulated`: GPU subtrees run on the emulated device. Starts the
    /// plan's report.
    pub(super) fn completed(
        &self,
        input: Arc<dyn ExecutionPlan>,
        emulated: bool,
        session: &Arc<Session>,
    ) -> Self {
        let Decision { report, reasons, .. } = &self.decision;
        report.update(|report| *report = planned(&input, emulated, &reasons.texts));
        let timing = Timing::new(session, &self.decision);
        Self {
            input,
            planned: report.get().device,
            decision: self.decision.clone(),
            timing,
        }
    }

    /// Why parts of the plan stay on the CPU.
    pub fn reasons(&self) -> &[String] {
        &self.decision.reasons.texts
    }

    /// Whether the GPU is ready for the plan, if `galatea.device = 'auto'` compared times.
    pub(crate) fn gpu(&self) -> Option<GpuState> {
        self.decision.gpu
    }

    /// The key of the query's measured times.
    #[cfg(test)]
    pub(super) fn query(&self) -> Option<crate::graph::PlanKey> {
        self.decision.query
    }

    /// The plan below.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// Where the plan runs. After a run: where it ran, without the subtrees that fell back to the CPU.
    pub fn device(&self) -> QueryDevice {
        self.report().get().device
    }

    /// Why subtrees of the plan that were placed ran on the CPU.
    pub(crate) fn fallbacks(&self) -> Vec<String> {
        let report = self.report().get();
        match report.fell_back {
            0 => Vec::new(),
            _ => (report.reasons.into_iter())
                .filter(|reason| !self.reasons().contains(reason))
                .collect(),
        }
    }

    /// The report of the plan's execution.
    pub(super) fn report(&self) -> &PlanReport {
        &self.decision.report
    }

    /// Inputs of the decision beside the query, its tables and the settings; `None` if they may change with
    /// the next run.
    pub(crate) fn placement_inputs(&self) -> Option<&PlacementInputs> {
        self.decision.placement_inputs.as_ref()
    }

    /// The same node over `input`, for an execution that reports to `report`.
    pub(crate) fn renewed(&self, input: Arc<dyn ExecutionPlan>, report: &PlanReport) -> Self {
        let emulated = self.planned == QueryDevice::Emulated;
        report.update(|report| *report = planned(&input, emulated, self.reasons()));
        Self {
            input,
            planned: self.planned,
            decision: Decision {
                report: report.clone(),
                ..self.decision.clone()
            },
            timing: self.timing.as_ref().map(|timing| timing.renewed(report.clone())),
        }
    }
}

impl DisplayAs for PlacementExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        if matches!(format, DisplayFormatType::TreeRender) {
            writeln!(f, "device={}", self.device())?;
            if let Some(gpu) = self.gpu() {
                writeln!(f, "gpu={gpu}")?;
            }
            let reasons = self.reasons().join("; ");
            return if reasons.is_empty() {
                Ok(())
            } else {
                writeln!(f, "on the CPU={reasons}")
            };
        }
        write!(f, "PlacementExec: device={}", self.device())?;
        if let Some(gpu) = self.gpu() {
            write!(f, ", gpu={gpu}")?;
        }
        if !self.reasons().is_empty() {
            write!(f, ", on the CPU because=[{}]", self.reasons().join("; "))?;
        }
        let (mut placed, mut fallen) = (0, 0);
        count_placed(&self.input, &mut placed, &mut fallen);
        if fallen > 0 {
            write!(f, ", {fallen} of {placed} GPU subtrees fell back to the CPU")?;
        }
        Ok(())
    }
}

/// The report of a plan before it runs, with the reasons why parts of it stay on the CPU.
fn planned(plan: &Arc<dyn ExecutionPlan>, emulated: bool, reasons: &[String]) -> QueryReport {
    let (mut placed, mut fallen) = (0, 0);
    count_placed(plan, &mut placed, &mut fallen);
    let mut reasons = reasons.to_vec();
    if placed == 0 && reasons.is_empty() && !has_reader(plan) {
        reasons.push(no_work(plan).to_owned());
    }
    QueryReport::planned(placed, emulated, reasons)
}

/// The reason why a plan without unsupported nodes runs on the CPU.
fn no_work(plan: &Arc<dyn ExecutionPlan>) -> &'static str {
    match has_rows(plan) {
        true => "no filter, join, aggregate or order that a device would run",
        false => "no rows are read",
    }
}

/// Counts the GPU subtrees of an executed plan, and those that fell back to the CPU.
fn count_placed(plan: &Arc<dyn ExecutionPlan>, placed: &mut usize, fallen: &mut usize) {
    if let Some(gpu) = plan.downcast_ref::<GpuExec>() {
        *placed += 1;
        *fallen += usize::from(gpu.fell_back());
    }
    *placed += usize::from(plan.is::<GpuStreamExec>());
    for child in plan.children() {
        count_placed(child, placed, fallen);
    }
}

/// Whether an operator below completes the report.
pub(super) fn has_reader(plan: &Arc<dyn ExecutionPlan>) -> bool {
    PlanReport::READERS.contains(&plan.name()) || plan.children().into_iter().any(has_reader)
}

impl ExecutionPlan for PlacementExec {
    fn name(&self) -> &str {
        "PlacementExec"
    }

    galatea_store::keeps_rows!(self.input);
    galatea_store::one_child!(self.input, |input| Arc::new(Self {
        input,
        ..Self::clone(&self)
    }));
    galatea_store::no_expressions!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let context = if has_reader(&self.input) {
            self.report().within(&context)
        } else {
            context
        };
        let stream = self.input.execute(partition, Arc::clone(&context))?;
        let partitions = self.properties().output_partitioning().partition_count();
        Ok(match &self.timing {
            Some(timing) => Arc::clone(timing).watch(partitions, stream, &context),
            None if self.decision.starts_gpu => starting_gpu(stream),
            None => stream,
        })
    }
}

/// The stream; at its end the driver of the GPU starts.
fn starting_gpu(stream: SendableRecordBatchStream) -> SendableRecordBatchStream {
    struct Starter;
    impl Drop for Starter {
        fn drop(&mut self) {
            Engine::start_gpu_soon();
        }
    }
    let (schema, starter) = (stream.schema(), Starter);
    let watched = stream.inspect(move |_| {
        let _ = &starter;
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, watched))
}
