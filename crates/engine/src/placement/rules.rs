//! The optimizer rules of a session: one places subtrees, one completes the plan's report.

use super::decision::{self, Decision, PlacementInputs};
use super::placement_exec::{PlacementExec, has_reader};
use super::reasons::Reasons;

use super::unshare::unshared;
use crate::config::{DeviceChoice, Fallback, GalateaConfig};
use crate::nodes::note_readers;
use crate::session::Session;
use datafusion::common::{Result, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{Boundedness, ChildrenPropertiesMode, EmissionType};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions};
use galatea_base::reason::Reason;
use std::sync::Arc;
use std::time::Duration;

/// The early rule: replaces supported subtrees.
#[derive(Debug)]
pub struct PlaceOnDevice {
    session: Arc<Session>,
}

impl PlaceOnDevice {
    /// The rule for a session.
    pub fn new(session: Arc<Session>) -> Self {
        Self { session }
    }
}

impl PhysicalOptimizerRule for PlaceOnDevice {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let config = GalateaConfig::of(options);
        // Statements that write need no device, but the store with its current configuration.
        self.session.engine().store();
        let mut decision = Decision::default();
        let cores = options.execution.target_partitions;
        let must_wait = config.device != DeviceChoice::Auto || config.fallback == Fallback::Error;
        let usable = match self.session.engine().usable_within(&config, Duration::ZERO) {
            Err(Reason::Starting) if must_wait || decision::waits_for_start(&plan, cores) => {
                self.session.engine().usable(&config)
            }
            usable => usable,
        };
        let placed = match usable {
            Ok(()) => decision::place(&self.session, &config, cores, plan, &mut decision)?,
            Err(reason) if matches!(config.device, DeviceChoice::Gpu | DeviceChoice::Emulated) => {
                return plan_err!(
                    "galatea.device is {}, but {reason}\nhint: SET galatea.device = 'auto'",
                    config.device
                );
            }
            Err(reason) => {
                decision.reasons = Reasons::work(&reason);
                decision.starts_gpu = matches!(reason, Reason::Starting);
                // Once the GPU has started, the next plan may be different.
                let settled = !matches!(reason, Reason::Starting);
                decision.placement_inputs = settled.then(|| PlacementInputs::untimed(&self.session, &config));
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
        Ok(Arc::new(PlacementExec::new(unshared(placed)?, decision)))
    }

    fn name(&self) -> &str {
        "galatea_place_on_device"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A rule before DataFusion's check of the finished plan. DataFusion refuses operators that would return no
/// row before the end of a stream, with a debug dump; this rule refuses them with the reasons for the CPU.
#[derive(Debug)]
pub struct RefuseEndless;

impl PhysicalOptimizerRule for RefuseEndless {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(endless) = endless(&plan) else {
            return Ok(plan);
        };
        let reasons = reasons(&plan).unwrap_or_default().iter();
        let reasons: String = reasons.map(|reason| format!("\n  {reason}")).collect();
        plan_err!(
            "{endless} on the CPU would return no row before the end of a stream; it does not run on the device:{reasons}"
        )
    }

    fn name(&self) -> &str {
        "galatea_refuse_endless"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The name of the lowest operator that reads a stream and returns rows only at its end.
fn endless(plan: &Arc<dyn ExecutionPlan>) -> Option<&str> {
    if let Some(below) = plan.children().into_iter().find_map(endless) {
        return Some(below);
    }
    let waits = match plan.boundedness() {
        Boundedness::Bounded => false,
        Boundedness::Unbounded {
            requires_infinite_memory,
        } => requires_infinite_memory || plan.pipeline_behavior() == EmissionType::Final,
    };
    waits.then(|| plan.name())
}

/// Why nodes of a plan stay on the CPU.
fn reasons(plan: &Arc<dyn ExecutionPlan>) -> Option<&[String]> {
    match plan.downcast_ref::<PlacementExec>() {
        Some(placement) => Some(placement.reasons()),
        None => plan.children().into_iter().find_map(reasons),
    }
}

/// The late rule: completes the [`PlacementExec`] of plans that were offered to the device, and moves it to
/// the root.
#[derive(Debug)]
pub struct AnnotatePlacement {
    session: Arc<Session>,
}

impl AnnotatePlacement {
    /// The rule for a session.
    pub fn new(session: Arc<Session>) -> Self {
        Self { session }
    }
}

impl PhysicalOptimizerRule for AnnotatePlacement {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Bare { plan, placement } = without_placement(plan)?;
        let Some(placement) = placement else {
            return Ok(plan);
        };
        // Statements such as SET leave an empty plan without columns; they are no query.
        if plan.schema().fields().is_empty() {
            return Ok(plan);
        }
        note_readers(&plan);
        let config = GalateaConfig::of(options);
        let emulated = config.device == DeviceChoice::Emulated;
        let completed = placement.completed(Arc::clone(&plan), emulated, &self.session);
        self.session.reports().record(completed.report().clone());
        // Operators that report find the report through the node.
        Ok(match config.device {
            DeviceChoice::Cpu if !has_reader(&plan) => plan,
            _ => Arc::new(completed),
        })
    }

    fn name(&self) -> &str {
        "galatea_annotate_placement"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A plan without its [`PlacementExec`], above which other rules may have added nodes, and that node.
struct Bare {
    plan: Arc<dyn ExecutionPlan>,
    placement: Option<PlacementExec>,
}

fn without_placement(plan: Arc<dyn ExecutionPlan>) -> Result<Bare> {
    if let Some(placement) = plan.downcast_ref::<PlacementExec>() {
        return Ok(Bare {
            plan: Arc::clone(placement.input()),
            placement: Some(placement.clone()),
        });
    }
    let [child] = plan.children()[..] else {
        return Ok(Bare {
            plan,
            placement: None,
        });
    };
    let below = without_placement(Arc::clone(child))?;
    Ok(match below.placement {
        None => Bare {
            plan,
            placement: None,
        },
        placement => {
            let changed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            let plan = plan.replace_children(vec![below.plan], changed)?;
            Bare { plan, placement }
        }
    })
}
