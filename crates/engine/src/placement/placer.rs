//! Replacing the supported subtrees of one plan that are worth it, from its root down.

use super::cost::Estimator;
use super::find::{finder, refusal, subtree};
use super::nodes::{ends, is_partial, orders_result, unsupported};
use super::subtree::{BuildSide, PipelineSource, Prediction, Subtree};
use super::waiting::Waiting;
use super::{classes, grouping_sets, key, sort, stream, top};
use crate::config::{DeviceChoice, GalateaConfig};
use crate::execution::{GpuExec, WorkRowsExec};
use crate::history::{OneTime, PlanKey};
use crate::reason::{Basis, Reason};
use crate::report::PlanReport;
use crate::runtime::Runtime;
use datafusion::common::Result;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

/// Why nodes of a plan stay on the CPU.
#[derive(Debug, Default, Clone)]
pub(crate) struct Reasons {
    /// Each reason once.
    pub(crate) texts: Vec<String>,
    /// Whether some of them keep more on the CPU than the order of rows.
    pub(crate) concern_work: bool,
}

impl Reasons {
    /// A reason that keeps work on the CPU.
    pub(crate) fn work(reason: &Reason) -> Self {
        Self {
            texts: vec![reason.to_string()],
            concern_work: true,
        }
    }

    pub(super) fn add(&mut self, text: String, is_work: bool) {
        self.concern_work |= is_work;
        if !self.texts.contains(&text) {
            self.texts.push(text);
        }
    }
}

pub(super) fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// What of the time that its parts are expected to save a subtree must save to be waited for: predictions are
/// not better than that, and what its parts return is not copied.
const PARTS_GAIN: f64 = 0.9;

/// Groups that are taken for few until a run shows how many they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct FewGroups {
    /// The pipeline that returns them.
    shape: Option<PlanKey>,
    estimate: f64,
}

impl FewGroups {
    /// Whether they are few, for all that is known now.
    pub(super) fn are_few(&self, runtime: &Runtime, config: &GalateaConfig) -> bool {
        let seen = self.shape.and_then(|shape| runtime.history().returned(shape));
        let groups = seen.map_or(self.estimate, |groups| groups as f64);
        groups < config.build_rows.0 as f64
    }
}

/// Places the subtrees of one plan.
pub(super) struct Placer<'a> {
    runtime: &'a Arc<Runtime>,
    config: &'a GalateaConfig,
    report: &'a PlanReport,
    pub(super) estimator: Estimator,
    /// The subtrees that stay on the CPU for the time of loading alone.
    pub(super) waiting: RefCell<Vec<Waiting>>,
    /// What the subtrees placed so far make, for themselves and others.
    pub(super) made: RefCell<Vec<OneTime>>,
    /// Groups that the plan returns because they are taken for few.
    pub(super) few: RefCell<Vec<FewGroups>>,
    /// Seconds that the subtrees placed so far are expected to save, with their columns in device memory:
    /// whether loading is worth it was decided of each.
    pub(super) gain: Cell<f64>,
    /// Seconds that they, and those that stayed on the CPU for the time of loading, would save without it.
    pub(super) hot_gain: Cell<f64>,
}

impl<'a> Placer<'a> {
    pub(super) fn new(
        runtime: &'a Arc<Runtime>,
        config: &'a GalateaConfig,
        report: &'a PlanReport,
        cores: usize,
    ) -> Self {
        Self {
            runtime,
            config,
            report,
            estimator: Estimator::new(cores),
            waiting: RefCell::default(),
            made: RefCell::default(),
            few: RefCell::default(),
            gain: Cell::new(0.0),
            hot_gain: Cell::new(0.0),
        }
    }

    /// Whether some subtree stayed on the CPU for the time of loading its columns alone.
    pub(super) fn waits_for_loading(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// Places what is worth it in `plan`, of which no more than `fetch` rows are wanted.
    pub(super) fn place(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        fetch: Option<usize>,
        reasons: &mut Reasons,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (before, waiting) = (self.hot_gain.get(), self.waiting.borrow().len());
        let found = |side: &BuildSide| found_in_rows(self.runtime, side);
        let finder = finder(&found, self.config.device != DeviceChoice::Auto);
        let sorted = sort::below(&plan, &finder);
        let is_sort = sorted.is_some() && plan.is::<SortExec>();
        if let Some((sort, found)) = sorted {
            let sorted = ends(&plan).and(found).and_then(|found| {
                sort::check_worth(&found, sort, &self.estimator, self.config)?;
                self.worthwhile(found, &plan, None)
            });
            match sorted {
                Ok(found) => return self.node(found, plan, reasons),
                Err(reason) if is_sort && !orders_result(&plan) => note(reasons, &plan, &reason),
                Err(_) => {}
            }
        }
        if let Some((sort, Ok(found))) = top::below(&plan, &finder)
            && ends(&plan).is_ok()
            && let Ok(found) = self.worthwhile(found, sort.input(), None)
        {
            let rows = self.node(found, Arc::clone(sort.input()), reasons)?;
            return plan.replace_children(
                vec![rows],
                ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
            );
        }
        if let Some(union) = self.place_sets(&plan, reasons)? {
            return Ok(union);
        }
        if let Some(joined) = self.place_classes(&plan)? {
            return Ok(joined);
        }
        if plan.boundedness().is_unbounded()
            && let Some(outcome) = stream::operator(&plan, &finder, self.runtime, self.config)
        {
            match outcome {
                Ok(operator) => return Ok(operator),
                Err(reason) => note(reasons, &plan, &reason),
            }
        } else if let Some(outcome) = subtree(&plan, &finder) {
            let worth = |found| self.worthwhile(found, &plan, fetch);
            match ends(&plan).and(outcome).and_then(worth) {
                Ok(found) => return self.node(found, plan, reasons),
                // Why a partial aggregate is none of a pipeline, the final one above it has said.
                Err(_) if is_partial(&plan) => {}
                Err(reason) => note(reasons, &plan, &reason),
            }
        } else if let Some(reason) = refusal(&plan, &finder).or_else(|| unsupported(&plan))
            && !orders_result(&plan)
            && !is_sort
        {
            note(reasons, &plan, &reason);
        }
        // For a subtree that is not yet worth loading, count the larger gain: its own, or that of the
        // subtrees in it.
        let as_one = self.hot_gain.replace(before);
        let waiting_as_one = self.waiting.borrow_mut().split_off(waiting);
        let children: Vec<_> = plan.children().into_iter().cloned().collect();
        let fetch = fetch_below(&plan, fetch);
        let recursive = plan.downcast_ref::<RecursiveQueryExec>();
        let placed = (children.iter().enumerate())
            .map(|(at, child)| match (recursive, at) {
                (Some(query), 1..) => self.place_recursive_term(child, query.name(), reasons),
                _ => self.place(Arc::clone(child), fetch, reasons),
            })
            .collect::<Result<Vec<_>>>()?;
        if as_one >= PARTS_GAIN * self.hot_gain.get() {
            self.hot_gain.set(as_one.max(self.hot_gain.get()));
            let mut all = self.waiting.borrow_mut();
            all.truncate(waiting);
            all.extend(waiting_as_one);
        }
        let same = |(new, old): (&Arc<dyn ExecutionPlan>, _)| Arc::ptr_eq(new, old);
        if placed.iter().zip(&children).all(same) {
            return Ok(plan);
        }
        plan.replace_children(
            placed,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    /// Places what is worth it in the recursive term of a query, where the device is forced: how many rows a
    /// step has, and how many steps there are, nothing tells.
    fn place_recursive_term(
        &self,
        term: &Arc<dyn ExecutionPlan>,
        name: &str,
        reasons: &mut Reasons,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let refuse = |detail: &str| Reason::Node {
            node: "RecursiveQueryExec".into(),
            detail: detail.into(),
        };
        if self.config.device == DeviceChoice::Auto {
            let reason = refuse("its recursive term is on the device where that is forced alone");
            note(reasons, term, &reason);
            return Ok(Arc::clone(term));
        }
        let rereads = WorkRowsExec::in_place_of_tables(Arc::clone(term))?;
        let placed = self.place(Arc::clone(&rereads), None, reasons)?;
        if Arc::ptr_eq(&placed, &rereads) {
            return Ok(Arc::clone(term));
        }
        // DataFusion gives the work table to one node.
        if WorkRowsExec::readers(&placed, name) > 1 {
            note(
                reasons,
                term,
                &refuse("its recursive term would read a step's rows twice"),
            );
            return Ok(Arc::clone(term));
        }
        Ok(placed)
    }

    /// The union of the grouping sets of an aggregate, if every one of them is worth a place.
    fn place_sets(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        reasons: &mut Reasons,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let sets = match grouping_sets::sets(plan) {
            None => return Ok(None),
            Some(Ok(sets)) => sets,
            Some(Err(reason)) => {
                note(reasons, plan, &reason);
                return Ok(None);
            }
        };
        let (gain, made) = (self.gain.get(), self.made.borrow().len());
        let mut own = Reasons::default();
        let placed = (sets.iter())
            .map(|set| self.place(Arc::clone(&set.aggregate), None, &mut own))
            .collect::<Result<Vec<_>>>()?;
        if placed.iter().all(|set| set.is::<GpuExec>())
            && let Some(union) = grouping_sets::union(sets, placed, &plan.schema())
        {
            return Ok(Some(union));
        }
        // What stays is what they would save, or forgo for the time of loading: `place` goes on with it.
        self.gain.set(gain);
        self.made.borrow_mut().truncate(made);
        for text in own.texts {
            reasons.add(text, own.concern_work);
        }
        Ok(None)
    }

    /// The classes of an aggregate's calls, joined, if every one of them is worth a place.
    fn place_classes(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(classes) = classes::classes(plan).filter(|_| ends(plan).is_ok()) else {
            return Ok(None);
        };
        let (gain, made) = (self.gain.get(), self.made.borrow().len());
        // Where a class stays on the CPU, the aggregate says why.
        let mut own = Reasons::default();
        let mut results = Vec::with_capacity(classes.len());
        for class in &classes {
            let placed = self.place(Arc::clone(&class.rows), None, &mut own)?;
            let result = Some(placed).filter(|placed| placed.is::<GpuExec>());
            results.extend(result.and_then(|placed| class.over(placed)));
        }
        if results.len() == classes.len()
            && let Some(joined) = classes::joined(plan, &classes, results)
        {
            return Ok(Some(joined));
        }
        self.gain.set(gain);
        self.made.borrow_mut().truncate(made);
        Ok(None)
    }

    /// The node of a subtree that computes what `cpu` does.
    fn node(
        &self,
        mut found: Subtree,
        cpu: Arc<dyn ExecutionPlan>,
        reasons: &mut Reasons,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // Filters say it themselves.
        if let PipelineSource::Plan(made) = &found.source
            && made.is::<ProjectionExec>()
            && let Err(reason) = finder(&|side| found_in_rows(self.runtime, side), false).below(made)
        {
            note(reasons, made, &reason);
        }
        // What feeds the pipeline may hold further subtrees, and reasons of its own.
        for child in found.children_mut() {
            *child = self.place(Arc::clone(child), None, reasons)?;
        }
        Ok(Arc::new(GpuExec::new(
            found,
            cpu,
            Arc::clone(self.runtime),
            self.config.clone(),
            place_again,
            self.report.clone(),
        )))
    }

    /// Whether the device is expected to be faster, unless it is forced.
    fn worthwhile(
        &self,
        found: Subtree,
        plan: &Arc<dyn ExecutionPlan>,
        fetch: Option<usize>,
    ) -> Result<Subtree, Reason> {
        let all = found.materialises() && found.top().is_none() && !found.sorts();
        if all && found.is_whole() {
            return Err(Reason::Node {
                node: "ProjectionExec".into(),
                detail: "every row is returned: nothing for the device to do".into(),
            });
        }
        let shape = key::shape(&found, self.config);
        if let Some(reason) = self.runtime.history().refusal(shape) {
            return Err(reason);
        }
        let mut found = Subtree {
            shape: Some(shape),
            ..found
        };
        self.choose_builds(&mut found)?;
        if self.config.device != DeviceChoice::Auto {
            return Ok(found);
        }
        let least = self.config.min_rows.0;
        if let Some(rows) = found.rows.filter(|rows| *rows < least) {
            return Err(Reason::Setting {
                setting: "galatea.min_rows",
                value: format!("{least}, the table has {rows} rows"),
            });
        }
        if let (PipelineSource::Groups(groups), true) = (&found.source, found.materialises())
            && !plan.is::<AggregateExec>()
            && self.are_few(groups)
        {
            return Err(Reason::Node {
                node: "FilterExec".into(),
                detail: "few groups are filtered when they have been returned".into(),
            });
        }
        if matches!(found.source, PipelineSource::Plan(_)) {
            return Err(Reason::Node {
                node: "scan".into(),
                detail: "rows made by CPU operators would be encoded only to be read once (galatea.device = 'gpu' forces it)".into(),
            });
        }
        let mut cpu = self.estimator.host_seconds(plan);
        let time = self
            .estimator
            .device_time(&found, plan, self.runtime, self.config);
        if let (Some(fetch), true) = (fetch, found.materialises()) {
            // The CPU stops when it has the rows, and so does the pipeline, once its columns are there.
            cpu *= (fetch as f64 / self.estimator.rows(plan).max(1.0)).min(1.0);
        }
        let history = self.runtime.history();
        let behind = self.config.background.0;
        let device = match behind {
            true => time.whole(),
            false => time.unpaid(history),
        };
        if time.hot <= cpu {
            self.hot_gain.set(self.hot_gain.get() + cpu - time.hot);
        }
        if time.suits(cpu, behind, history) {
            self.gain.set(self.gain.get() + cpu - time.hot);
            self.made.borrow_mut().extend(time.once);
            let prediction = Prediction {
                device: seconds(device),
                cpu: seconds(cpu),
            };
            return Ok(Subtree {
                prediction: Some(prediction),
                ..found
            });
        }
        let loading = time.hot <= cpu;
        let hot = seconds(time.hot);
        if loading {
            self.waiting.borrow_mut().push(Waiting {
                shares: time.shares(cpu - time.hot, history),
                hot: time.hot,
                host: cpu,
                cores: self.estimator.cores(),
                config: self.config.clone(),
                place_again,
                cpu: Arc::clone(plan),
                subtree: found,
            });
        }
        if loading && behind {
            return Err(Reason::Behind {
                hot,
                first: seconds(device),
                cpu: seconds(cpu),
            });
        }
        Err(Reason::Cost {
            device: seconds(device),
            device_basis: if loading {
                Basis::PredictedWithLoading
            } else {
                Basis::Predicted
            },
            cpu: seconds(cpu),
            cpu_basis: Basis::Predicted,
        })
    }
}

impl Placer<'_> {
    /// Whether an aggregate is expected to have so few groups that its result is better returned than
    /// kept on the device: as an earlier run of it had, or else by the estimate.
    fn are_few(&self, groups: &Arc<dyn ExecutionPlan>) -> bool {
        let found = |side: &BuildSide| found_in_rows(self.runtime, side);
        let alone = subtree(groups, &finder(&found, false)).and_then(Result::ok);
        let shape = alone.map(|alone| key::shape(&alone, self.config));
        let few = FewGroups {
            shape,
            estimate: self.estimator.groups(groups),
        };
        let are_few = few.are_few(self.runtime, self.config);
        if are_few {
            self.few.borrow_mut().push(few);
        }
        are_few
    }

    /// Chooses which build sides pipelines make: those of large tables, and those that an earlier run could
    /// not arrange on the host; unless one has shown that they cannot be made so.
    fn choose_builds(&self, found: &mut Subtree) -> Result<(), Reason> {
        let refusal = |shape| self.runtime.history().refusal(shape);
        for side in &mut found.dimensions {
            let collected = refusal(key::dimension(side));
            let shape = key::build(side);
            let mut why = side.limit.clone();
            side.build = side.build.take().and_then(|mut build| {
                let large = build
                    .subtree
                    .rows
                    .is_none_or(|rows| rows >= self.config.build_rows.0);
                let refused = refusal(shape).or_else(|| self.choose_builds(&mut build.subtree).err());
                build.shape = Some(shape);
                let only = side.limit.is_some() || collected.is_some();
                let taken = refused.is_none() && (large || only);
                why = refused.or(why.take());
                taken.then_some(build)
            });
            let shape = key::dimension(side);
            side.shape = Some(shape);
            if side.build.is_some() {
                continue;
            }
            if let Some(reason) = collected.or(side.limit.as_ref().and(why)) {
                return Err(reason);
            }
        }
        Ok(())
    }
}

/// What a run has found in the rows of a build side that speaks against it.
fn found_in_rows(runtime: &Runtime, side: &BuildSide) -> Option<Reason> {
    let refusal = runtime.history().refusal(key::dimension(side));
    refusal.filter(Reason::is_of_rows)
}

/// The subtree of `plan` as it would be placed now, after a run of it has refused a build side.
///
/// # Errors
/// Why there is none.
fn place_again(
    plan: &Arc<dyn ExecutionPlan>,
    runtime: &Arc<Runtime>,
    config: &GalateaConfig,
) -> Result<Subtree, Reason> {
    let found = |side: &BuildSide| found_in_rows(runtime, side);
    let finder = finder(&found, config.device != DeviceChoice::Auto);
    let sorted = sort::below(plan, &finder).map(|(_, found)| found);
    let nothing = || Reason::Node {
        node: plan.name().into(),
        detail: "nothing to place".into(),
    };
    let found = sorted.or_else(|| subtree(plan, &finder));
    let mut found = found.ok_or_else(nothing)??;
    found.shape = Some(key::shape(&found, config));
    let report = PlanReport::default();
    Placer::new(runtime, config, &report, 1).choose_builds(&mut found)?;
    Ok(found)
}

/// Rows that are wanted of a node's children, when `fetch` are of the node.
fn fetch_below(plan: &Arc<dyn ExecutionPlan>, fetch: Option<usize>) -> Option<usize> {
    let own = |skip: usize, fetch: Option<usize>| fetch.map(|rows| rows.saturating_add(skip));
    if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
        return own(limit.skip(), limit.fetch());
    }
    if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
        return Some(limit.fetch());
    }
    let passes = plan.is::<ProjectionExec>() || plan.is::<CoalescePartitionsExec>();
    fetch.filter(|_| passes)
}

fn note(reasons: &mut Reasons, plan: &Arc<dyn ExecutionPlan>, reason: &Reason) {
    let text = match reason {
        Reason::Node { .. } | Reason::Setting { .. } | Reason::EmulatedDevice | Reason::Device { .. } => {
            reason.to_string()
        }
        _ => format!("{}: {reason}", plan.name()),
    };
    reasons.add(text, !plan.is::<SortExec>());
}
