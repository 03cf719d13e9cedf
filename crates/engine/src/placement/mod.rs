//! Placement: which part of a physical plan runs as GPU pipelines.
//!
//! Two rules of one session's physical optimizer. [`PlaceOnDevice`] runs early, while the plan is still plain (right
//! after DataFusion answered what it can from statistics, before it adds repartitioning): it replaces each maximal
//! supported subtree by one [`GpuExec`], so DataFusion later sees a leaf and arranges the
//! rest around it. [`AnnotatePlacement`] runs last and puts a [`PlacementExec`] on top, which shows in EXPLAIN where
//! everything runs and why not on the device, and completes the session's query report.
//!
//! Planning asks (`Result<_, Reason>`), it never tries and catches, and it needs no GPU.

mod annotate;
mod join;
mod subtree;

pub use annotate::{AnnotatePlacement, PlacementExec, query_report};
pub use join::DimensionSource;
pub use subtree::{PipelineSource, Subtree, subtree};

use crate::config::{DeviceChoice, Fallback, GalateaConfig};
use crate::execution::GpuExec;
use crate::reason::Reason;
use crate::report::PlanReport;
use crate::runtime::Runtime;
use datafusion::common::{Result, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// The report of the plan being optimised, with why its nodes stay on the CPU, from the early rule to the late one. DataFusion
    /// runs a plan's rules one after another on one thread, without suspending.
    static PLANNED: RefCell<Option<PlanReport>> = const { RefCell::new(None) };
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

    fn place(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &GalateaConfig,
        report: &PlanReport,
        reasons: &mut Vec<String>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(outcome) = subtree(&plan, config) {
            match outcome.and_then(|found| worthwhile(found, config)) {
                Ok(mut found) => {
                    // What feeds the pipeline may hold further subtrees, and reasons of its own.
                    for child in found.children_mut() {
                        *child = self.place(Arc::clone(child), config, report, reasons)?;
                    }
                    return Ok(Arc::new(GpuExec::new(
                        found,
                        plan,
                        Arc::clone(&self.runtime),
                        config.clone(),
                        report.clone(),
                    )));
                }
                Err(reason) => note(reasons, &plan, &reason),
            }
        } else if let Some(reason) = join::refusal(&plan).or_else(|| unsupported(&plan)) {
            note(reasons, &plan, &reason);
        }
        let children: Vec<_> = plan.children().into_iter().cloned().collect();
        if children.is_empty() {
            return Ok(plan);
        }
        let placed = children
            .iter()
            .map(|child| self.place(Arc::clone(child), config, report, reasons))
            .collect::<Result<Vec<_>>>()?;
        if placed
            .iter()
            .zip(&children)
            .all(|(new, old)| Arc::ptr_eq(new, old))
        {
            return Ok(plan);
        }
        plan.replace_children(
            placed,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }
}

fn note(reasons: &mut Vec<String>, plan: &Arc<dyn ExecutionPlan>, reason: &Reason) {
    let text = match reason {
        Reason::Node { .. } | Reason::Setting { .. } | Reason::EmulatedDevice | Reason::Device { .. } => {
            reason.to_string()
        }
        _ => format!("{}: {reason}", plan.name()),
    };
    if !reasons.contains(&text) {
        reasons.push(text);
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
    ];
    let name = plan.name();
    (!arranges.contains(&name)).then(|| Reason::Node {
        node: name.to_string(),
        detail: "this operator has no device version".into(),
    })
}

/// Whether the device is expected to be faster, unless it is forced.
fn worthwhile(found: Subtree, config: &GalateaConfig) -> Result<Subtree, Reason> {
    if found.materialises() && found.plan.filters.is_empty() {
        let detail = "every row is returned: nothing for the device to do".into();
        return Err(Reason::Node {
            node: "ProjectionExec".into(),
            detail,
        });
    }
    if config.device != DeviceChoice::Auto {
        return Ok(found);
    }
    let least = config.min_rows.0;
    match found.rows {
        Some(rows) if rows < least => {
            Err(Reason::Setting { setting: "galatea.min_rows", value: format!("{least}, the table has {rows} rows") })
        }
        _ if matches!(found.source, PipelineSource::Plan(_)) => Err(Reason::Node {
            node: "scan".into(),
            detail: "rows made by CPU operators would be encoded only to be read once (galatea.device = 'gpu' forces it)".into(),
        }),
        _ => Ok(found),
    }
}

impl PhysicalOptimizerRule for PlaceOnDevice {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let config = GalateaConfig::of(options);
        let (mut reasons, report) = (Vec::new(), PlanReport::default());
        let placed = match self.runtime.usable(&config) {
            Ok(()) => self.place(plan, &config, &report, &mut reasons)?,
            Err(reason) if matches!(config.device, DeviceChoice::Gpu | DeviceChoice::Emulated) => {
                return plan_err!(
                    "galatea.device is {}, but {reason}\nhint: SET galatea.device = 'auto'",
                    config.device
                );
            }
            Err(reason) => {
                reasons.push(reason.to_string());
                plan
            }
        };
        if config.fallback == Fallback::Error && config.device != DeviceChoice::Cpu && does_work(&reasons) {
            return plan_err!(
                "parts of the query cannot run on the device and galatea.fallback is error:\n  {}\nhint: SET galatea.fallback = 'allow'",
                reasons.join("\n  ")
            );
        }
        report.update(|report| report.reasons = reasons);
        PLANNED.with(|slot| *slot.borrow_mut() = Some(report));
        Ok(placed)
    }

    fn name(&self) -> &str {
        "galatea_place_on_device"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Ordering a result that is already small is not what `fallback = error` is about.
fn does_work(reasons: &[String]) -> bool {
    reasons.iter().any(|reason| !reason.starts_with("SortExec:"))
}

/// Whether a node starts a pipeline candidate: an aggregate, or a filter or join under projections. A projection alone is
/// no work, and a filter of what another aggregate returns is little.
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
    filters && !rowless && !below.is::<AggregateExec>()
}
