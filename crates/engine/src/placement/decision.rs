//! The decision on a plan: its GPU subtrees, the reasons why the rest stays on the CPU, and whether a cached
//! plan is still the one that would be planned now.
//!
//! If the device is forced (`galatea.device` is gpu or emulated), every supported subtree with work for it is
//! placed. With `auto`, [`decide`](super::decide) compares predicted and measured times. Subtrees over
//! streams are placed if the host is expected to do less for each row (`stream.rs`). A pipeline that an
//! earlier run left to the CPU is left to it at once, with any setting.

use super::assessment::{Assessment, FewGroups, Worth, found_in_rows};
use super::cost::Estimator;
use super::cost::correction::HostTime;
use super::decide::{POLICY, reason_for_cpu};
use super::pending_warmup::PendingWarmup;
use super::placer::{Placed, Placer};
use super::plan_node::PlanNode;
use super::reasons::Reasons;
use crate::config::{DeviceChoice, GalateaConfig};
use crate::engine::EvictionEpoch;
use crate::graph::key::{self, Keys};
use crate::graph::{BuildSide, PlanKey};
use crate::history::OneTime;
use crate::nodes::GpuExec;
use crate::report::PlanReport;
use crate::session::Session;
use datafusion::common::Result;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use galatea_base::reason::Reason;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// Whether the columns and kernels of a query's GPU subtrees are ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GpuState {
    /// Some are missing.
    Cold,
    /// Some are missing, and runs on the CPU have paid this share of the warm-up, in percent.
    Warming(u32),
    /// All are ready.
    Warm,
}

impl std::fmt::Display for GpuState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cold => f.write_str("cold"),
            Self::Warming(paid) => write!(f, "warming ({paid} % paid)"),
            Self::Warm => f.write_str("warm"),
        }
    }
}

/// The decision on one plan.
#[derive(Debug, Default, Clone)]
pub(crate) struct Decision {
    /// Why nodes stay on the CPU.
    pub(crate) reasons: Reasons,
    /// Key of the query's measured times, if they may affect its placement.
    pub(crate) query: Option<PlanKey>,
    /// Predicted seconds on the CPU; `None`: a LIMIT ends it sooner.
    pub(super) host: Option<PredictedHost>,
    /// Whether the GPU is ready for its GPU subtrees, or for those that wait for a warm-up; `None` without
    /// either.
    pub(crate) gpu: Option<GpuState>,
    /// The report of the plan's execution.
    pub(crate) report: PlanReport,
    /// Subtrees that stay on the CPU because their columns or kernels are missing.
    pub(super) waiting: Vec<PendingWarmup>,
    /// The warm-up work that its run includes.
    pub(crate) made: Vec<OneTime>,
    /// Whether the driver of the GPU had not started, so that it starts when the query has ended.
    pub(crate) starts_gpu: bool,
    /// The other inputs of the decision, to validate a cached plan; `None`: the plan must not be cached.
    pub(crate) placement_inputs: Option<PlacementInputs>,
}

/// Predicted seconds of a query on the CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PredictedHost {
    /// If no operator multiplies rows.
    pub(super) cautious: f64,
    /// The prediction that its subtrees were compared by, corrected by measured runs.
    pub(super) compared: f64,
}

/// Inputs of the decision beside the query, its tables and the settings. A cached plan is valid while they
/// hold.
#[derive(Debug, Clone)]
pub(crate) struct PlacementInputs {
    /// Whether the device could be used.
    usable: Result<(), Reason>,
    /// The version of the remembered refusals.
    refusals: u64,
    /// The times that the decision depends on, if any.
    times: Option<Times>,
    /// Subtrees that wait for loading, if no subtree is placed.
    waiting: Vec<PendingWarmup>,
    /// Groups that the decision assumed to be few.
    few: Vec<FewGroups>,
    /// The eviction epoch in which all columns of its GPU subtrees were last seen in device memory.
    resident: Arc<Mutex<Option<EvictionEpoch>>>,
}

/// The times of a plan that may have GPU subtrees.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Times {
    query: PlanKey,
    /// Seconds that its GPU subtrees are expected to save, with their columns in device memory.
    gain: f64,
    /// Seconds that it is expected to take on the CPU.
    whole: f64,
    /// Whether it has GPU subtrees.
    placed: bool,
}

impl PlacementInputs {
    /// The inputs of a plan that depends only on the device and the refusals.
    pub(crate) fn untimed(session: &Session, config: &GalateaConfig) -> Self {
        Self {
            usable: session.engine().usable_within(config, Duration::ZERO),
            refusals: session.engine().history().refusals_version(),
            times: None,
            waiting: Vec::new(),
            few: Vec::new(),
            resident: Arc::default(),
        }
    }

    /// Whether the decision on the cached plan `kept` would be the same now.
    pub(crate) fn hold(
        &self,
        kept: &Arc<dyn ExecutionPlan>,
        session: &Session,
        config: &GalateaConfig,
    ) -> bool {
        let now = Self::untimed(session, config);
        if (&now.usable, now.refusals) != (&self.usable, self.refusals) {
            return false;
        }
        if !self.few.iter().all(|few| few.are_few(session, config)) {
            return false;
        }
        if !self.waiting.iter().all(|waiting| waiting.waits(session)) {
            return false;
        }
        self.times.is_none_or(|times| {
            let measured = session.engine().history().measured(times.query);
            let refused = reason_for_cpu(measured, times.gain, times.whole).is_some();
            refused != times.placed && (refused || self.is_resident(kept, session, config))
        })
    }

    /// Whether all columns of the GPU subtrees of `kept` are in device memory. If they were, and nothing has
    /// been evicted since, they still are.
    fn is_resident(&self, kept: &Arc<dyn ExecutionPlan>, session: &Session, config: &GalateaConfig) -> bool {
        let now = session.engine().eviction_epoch(config);
        let mut seen = self.resident.lock();
        if now.is_some() && *seen == now {
            return true;
        }
        let here = is_resident(kept, session, config);
        *seen = now.filter(|_| here);
        here
    }
}

/// Whether all columns of the GPU subtrees of `plan` are in device memory, so that they have no load cost.
fn is_resident(plan: &Arc<dyn ExecutionPlan>, session: &Session, config: &GalateaConfig) -> bool {
    let (estimator, keys) = (Estimator::new(1), Keys::new(config));
    let here = |plan: &Arc<dyn ExecutionPlan>| {
        let gpu = plan.downcast_ref::<GpuExec>();
        gpu.is_none_or(|gpu| estimator.once(gpu.graph().root(), session, &keys).is_empty())
    };
    fn all(plan: &Arc<dyn ExecutionPlan>, holds: &impl Fn(&Arc<dyn ExecutionPlan>) -> bool) -> bool {
        holds(plan) && plan.children().into_iter().all(|child| all(child, holds))
    }
    all(plan, &here)
}

/// Whether the first query of a process waits until the GPU's driver has started: it does if the CPU takes
/// much longer than the start.
pub(super) fn waits_for_start(plan: &Arc<dyn ExecutionPlan>, cores: usize) -> bool {
    let host = Estimator::new(cores).host_seconds(plan);
    host >= POLICY.worth_starting * Estimator::opening()
}

/// The plan with its profitable subtrees on the device, if the CPU would use `cores` cores.
pub(super) fn place(
    session: &Arc<Session>,
    config: &GalateaConfig,
    cores: usize,
    plan: Arc<dyn ExecutionPlan>,
    decision: &mut Decision,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut assessment = Assessment::new(session, config, cores);
    if config.device == DeviceChoice::Auto {
        assessment = assessment.of_query(key::query(&plan, config), &plan);
    }
    place_by(&assessment, plan, decision)
}

fn place_by(
    assessment: &Assessment<'_>,
    plan: Arc<dyn ExecutionPlan>,
    decision: &mut Decision,
) -> Result<Arc<dyn ExecutionPlan>> {
    let (session, config) = (assessment.session, assessment.config);
    let mut placement_inputs = PlacementInputs::untimed(session, config);
    let report = decision.report.clone();
    let found = |side: &BuildSide| found_in_rows(session, &assessment.keys, side);
    let placer = Placer::new(assessment, &report, &found);
    // A stream runs as long as its input, so its times are not compared; `stream.rs` compares costs per row.
    if config.device != DeviceChoice::Auto || reads_stream(&plan) {
        let placed = placer.place(plan, None, &mut decision.reasons)?;
        decision.placement_inputs = Some(placement_inputs);
        return Ok(placed.plan);
    }
    let query = assessment.query.map(|query| query.key);
    let query = query.unwrap_or_else(|| key::query(&plan, config));
    let measured = session.engine().history().measured(query);
    let Placed { plan: placed, worth } = placer.place(Arc::clone(&plan), None, &mut decision.reasons)?;
    let Worth {
        gain,
        hot_gain,
        made,
        waiting,
        few,
        is_cautious,
    } = worth;
    placement_inputs.few = few;
    let nothing = Arc::ptr_eq(&placed, &plan);
    if nothing && waiting.is_empty() {
        // No subtree is placed and none would be after loading its columns: measured times do not affect this
        // plan.
        decision.placement_inputs = Some(placement_inputs);
        return Ok(plan);
    }
    decision.query = Some(query);
    let HostTime { predicted, cautious } = assessment.estimator.host_time(&plan);
    let whole = if is_cautious { cautious } else { predicted };
    let by = assessment.query.map(|query| match is_cautious {
        true => query.cautious(),
        false => query,
    });
    decision.host = (!stops_early(&plan)).then(|| PredictedHost {
        cautious,
        compared: whole * by.map_or(1.0, |query| query.correction(session.engine().history()).factor),
    });
    let refused = match nothing {
        true => None,
        false => reason_for_cpu(measured, gain, whole),
    };
    let hot = reason_for_cpu(measured, hot_gain, whole);
    let paid = waiting.iter().map(|one| one.paid).reduce(f64::min);
    decision.gpu = Some(match paid {
        Some(paid) if paid > 0.0 => GpuState::Warming((paid * 100.0) as u32),
        None if made.is_empty() => GpuState::Warm,
        _ => GpuState::Cold,
    });
    if hot.is_none() {
        decision.waiting.clone_from(&waiting);
    }
    if let (true, Some(reason)) = (nothing, &hot) {
        // Nothing warms up for this query.
        decision.gpu = None;
        decision.reasons = Reasons::work(reason);
    }
    if nothing && hot.is_none() {
        // The decision changes when a warm-up is paid for or done.
        placement_inputs.waiting = waiting;
        decision.placement_inputs = Some(placement_inputs);
        return Ok(plan);
    }
    // The decision can be cached unless it depends on a warm-up: each run on the CPU pays for a part of it.
    let settled = match (&refused, nothing) {
        (None, false) => made.is_empty() && waiting.is_empty(),
        _ => hot.is_some(),
    };
    placement_inputs.times = Some(Times {
        query,
        gain: hot_gain,
        whole,
        placed: !nothing && refused.is_none(),
    });
    decision.placement_inputs = settled.then_some(placement_inputs);
    if let Some(reason) = refused {
        decision.reasons = Reasons::work(&reason);
        return Ok(plan);
    }
    decision.made = made;
    Ok(placed)
}

/// The subtrees of a plan that stay on the CPU only because columns or kernels are missing.
pub(super) fn waiting(
    session: &Arc<Session>,
    config: &GalateaConfig,
    cores: usize,
    plan: Arc<dyn ExecutionPlan>,
) -> Result<Vec<PendingWarmup>> {
    let mut decision = Decision::default();
    let assessment = Assessment::new(session, config, cores).deferring();
    place_by(&assessment, plan, &mut decision)?;
    Ok(decision.waiting)
}

/// Whether a node stops reading its inputs once it has enough rows.
fn stops_early(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let reads_all = matches!(PlanNode::of(plan), PlanNode::Sort(_) | PlanNode::Merge(_));
    (plan.fetch().is_some() && !reads_all) || plan.children().into_iter().any(stops_early)
}

fn reads_stream(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.boundedness().is_unbounded() || plan.children().into_iter().any(reads_stream)
}

#[cfg(test)]
mod tests;
