//! Placement: which part of a physical plan runs as GPU pipelines.
//!
//! Two rules of one session's physical optimizer. [`PlaceOnDevice`] runs early, while the plan is still plain
//! (right after DataFusion answered what it can from statistics, before it adds repartitioning): it replaces
//! each maximal supported subtree by one [`GpuExec`](crate::execution::GpuExec), so DataFusion later sees a
//! leaf and arranges the rest around it. [`AnnotatePlacement`] runs last and puts a [`PlacementExec`] on top,
//! which shows in EXPLAIN where everything runs and why not on the device, and completes the session's query
//! report.
//!
//! Planning asks (`Result<_, Reason>`), it never tries and catches, and it needs no GPU.

mod annotate;
mod build_side;
mod chain;
mod cost;
mod decide;
mod eager;
mod join;
mod key;
mod subtree;
mod timing;
mod top;

pub use annotate::{AnnotatePlacement, PlacementExec, query_report};
pub(crate) use build_side::FileStamps;
pub use build_side::{Build, DimensionSource, SharedRows};
pub use subtree::{PipelineSource, Prediction, Subtree, subtree};

pub(crate) use decide::{Decision, Grounds, Reasons};

use crate::config::{DeviceChoice, Fallback, GalateaConfig};
use crate::reason::Reason;
use crate::runtime::Runtime;
use datafusion::common::{Result, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// What was decided of the plan being optimised, from the early rule to the late one. DataFusion runs a
    /// plan's rules one after another on one thread, without suspending.
    static DECISION: RefCell<Decision> = RefCell::default();
}

/// The early rule: replaces supported subtrees.
#[derive(Debug)]
pub struct PlaceOnDevice {
    runtime: Arc<Runtime>,
}

impl PlaceOnDevice {
    /// The rule of a session with that runtime.
    pub fn new(runtime: Arc<Runtime>) -> Self {
        Self { runtime }
    }
}

/// Nodes that do work of their own and have no device version; the rest only arrange data.
fn unsupported(plan: &Arc<dyn ExecutionPlan>) -> Option<Reason> {
    let arranges = [
        "CoalescePartitionsExec",
        "CoalesceBatchesExec",
        "RepartitionExec",
        "OutputRequirementExec",
        "GlobalLimitExec",
        "LocalLimitExec",
        "CooperativeExec",
        "DataSourceExec",
        "StoreScanExec",
        "EmptyExec",
        "PlaceholderRowExec",
        "ExplainExec",
        "AnalyzeExec",
        "SortPreservingMergeExec",
        "DataSinkExec",
        "ProjectionExec",
        "ScalarSubqueryExec",
    ];
    let name = plan.name();
    (!arranges.contains(&name)).then(|| Reason::Node {
        node: name.to_string(),
        detail: "this operator has no device version".into(),
    })
}

impl PhysicalOptimizerRule for PlaceOnDevice {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let config = GalateaConfig::of(options);
        // Statements that write need no device, but the store as it is configured now.
        self.runtime.store(&config);
        let mut decision = Decision::default();
        let placed = match self.runtime.usable(&config) {
            Ok(()) => {
                let cores = options.execution.target_partitions;
                decide::place(&self.runtime, &config, cores, plan, &mut decision)?
            }
            Err(reason) if matches!(config.device, DeviceChoice::Gpu | DeviceChoice::Emulated) => {
                return plan_err!(
                    "galatea.device is {}, but {reason}\nhint: SET galatea.device = 'auto'",
                    config.device
                );
            }
            Err(reason) => {
                decision.reasons = Reasons::work(&reason);
                decision.grounds = Some(Grounds::untimed(&self.runtime, &config));
                plan
            }
        };
        let refused = config.fallback == Fallback::Error && config.device != DeviceChoice::Cpu;
        if refused && decision.reasons.concern_work {
            return plan_err!(
                "parts of the query cannot run on the device and galatea.fallback is error:\n  {}\nhint: SET galatea.fallback = 'allow'",
                decision.reasons.texts.join("\n  ")
            );
        }
        DECISION.with(|slot| *slot.borrow_mut() = decision);
        Ok(placed)
    }

    fn name(&self) -> &str {
        "galatea_place_on_device"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether a node starts a pipeline candidate: an aggregate, or a filter or join under projections. A
/// projection alone is no work.
fn is_candidate(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if plan.is::<AggregateExec>() {
        return true;
    }
    let mut below = plan;
    let mut filters = false;
    while below.is::<FilterExec>() || below.is::<ProjectionExec>() {
        filters |= below.is::<FilterExec>();
        match below.children().first() {
            Some(child) => below = child,
            None => return false,
        }
    }
    if below.is::<HashJoinExec>() && join::refusal(below).is_none() {
        return true;
    }
    let rowless = ["EmptyExec", "PlaceholderRowExec"].contains(&below.name());
    filters && !rowless
}
