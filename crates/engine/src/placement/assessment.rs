//! Compares supported subtrees of a plan with the CPU, and chooses the build sides that pipelines build on
//! the device.

use super::cost::Estimator;
use super::cost::correction::{Correction, HostTime, QueryOnHost};
use super::cost::device::DeviceTime;
use super::decide::{Candidate, POLICY, Verdict, decide, seconds};
use super::find::{finder, rows_subtree, subtree};
use super::pending_warmup::PendingWarmup;
use super::plan_node::PlanNode;
use super::sort;
use crate::config::{DeviceChoice, GalateaConfig};
use crate::graph::key::Keys;
use crate::graph::{
    Build, BuildSide, KeyScan, PipelineGraph, PipelineId, PipelineRef, PipelineSource, PlanKey, Prediction,
    gives_same_rows,
};
use crate::history::OneTime;
use crate::joins;
use crate::joins::costs::DeviceRates;
use crate::session::Session;
use datafusion::physical_plan::ExecutionPlan;
use galatea_base::reason::{Basis, Reason};
use std::sync::Arc;

/// Groups that are assumed to be few until a run has counted them.
#[derive(Debug, Clone, Copy)]
pub(super) struct FewGroups {
    /// The pipeline that returns them.
    shape: Option<PlanKey>,
    estimate: f64,
}

impl FewGroups {
    /// Whether they are few, according to the history or else the estimate.
    pub(super) fn are_few(&self, session: &Session, config: &GalateaConfig) -> bool {
        let seen = self
            .shape
            .and_then(|shape| session.engine().history().returned(shape));
        let groups = seen.map_or(self.estimate, |groups| groups as f64);
        groups < config.build_rows.0 as f64
    }
}

/// Assesses the subtrees of one plan: the time that each would save on the device.
pub(super) struct Assessment<'a> {
    pub(super) session: &'a Arc<Session>,
    pub(super) config: &'a GalateaConfig,
    pub(super) estimator: Estimator,
    pub(super) keys: Keys<'a>,
    /// The query that the plan computes, if its measured times count.
    pub(super) query: Option<QueryOnHost>,
    /// Whether missing columns and kernels are left to the background, even if a run would pay for them.
    defers: bool,
}

/// The worth of the subtrees of a plan. Worths add up.
#[derive(Default)]
pub(super) struct Worth {
    /// Seconds that the placed subtrees are expected to save, with their columns in device memory. The
    /// decision on each subtree has already counted its warm-up.
    pub(super) gain: f64,
    /// Seconds that they, and the subtrees that wait for their warm-up, would save after it.
    pub(super) hot_gain: f64,
    /// The one-time work of the placed subtrees, which other subtrees and later runs reuse.
    pub(super) made: Vec<OneTime>,
    /// Subtrees that stay on the CPU only because of the time of the warm-up.
    pub(super) waiting: Vec<PendingWarmup>,
    /// Groups that the plan returns because they are taken for few.
    pub(super) few: Vec<FewGroups>,
    /// Whether any subtree was compared as if no operator multiplied rows.
    pub(super) is_cautious: bool,
}

/// The predicted times of a subtree on the CPU and on the device.
struct Priced {
    host: HostTime,
    time: DeviceTime,
    /// The query of the subtree, if its measured times count.
    query: Option<QueryOnHost>,
    candidate: Candidate,
    verdict: Verdict,
}

impl Worth {
    /// Adds the worth of other subtrees.
    pub(super) fn add(&mut self, other: Self) {
        self.gain += other.gain;
        self.hot_gain += other.hot_gain;
        self.made.extend(other.made);
        self.waiting.extend(other.waiting);
        self.few.extend(other.few);
        self.is_cautious |= other.is_cautious;
    }

    /// The worth of the parts of a subtree that waits for its warm-up as a whole, with the worth of the
    /// whole.
    pub(super) fn waiting_as_one(self, whole: Self) -> Self {
        Self {
            hot_gain: self.hot_gain.max(whole.hot_gain),
            waiting: whole.waiting,
            is_cautious: self.is_cautious || whole.is_cautious,
            ..self.with_few(whole.few)
        }
    }

    /// The worth, with the groups that another attempt to place the same subtree assumed to be few.
    pub(super) fn with_few(mut self, few: Vec<FewGroups>) -> Self {
        self.few.extend(few);
        self
    }

    /// The worth of subtrees that are not placed after all: only their gain after the warm-up remains.
    pub(super) fn unplaced(self) -> Self {
        Self {
            gain: 0.0,
            made: Vec::new(),
            ..self
        }
    }
}

/// A subtree that was compared with the CPU.
pub(super) struct Assessed {
    /// The graph to run on the device, or why the subtree stays on the CPU.
    pub(super) graph: Result<PipelineGraph, Reason>,
    /// Its worth.
    pub(super) worth: Worth,
}

impl<'a> Assessment<'a> {
    /// The assessment of a plan without placed subtrees.
    pub(super) fn new(session: &'a Arc<Session>, config: &'a GalateaConfig, cores: usize) -> Self {
        Self {
            session,
            config,
            estimator: Estimator::new(cores),
            keys: Keys::new(config),
            query: None,
            defers: false,
        }
    }

    /// The assessment for the query with this key, which `plan` computes.
    pub(super) fn of_query(self, key: PlanKey, plan: &Arc<dyn ExecutionPlan>) -> Self {
        let host = self.estimator.host_time(plan);
        Self {
            query: Some(QueryOnHost { key, host }),
            ..self
        }
    }

    /// The same assessment, but everything that is missing is left to the background.
    pub(super) fn deferring(self) -> Self {
        Self { defers: true, ..self }
    }

    /// Decides whether a subtree that computes `plan`, limited to `fetch` rows, runs on the device.
    pub(super) fn assess(
        &self,
        found: PipelineGraph,
        plan: &Arc<dyn ExecutionPlan>,
        fetch: Option<usize>,
    ) -> Assessed {
        let mut worth = Worth::default();
        let graph = self
            .supported(found, plan, &mut worth)
            .and_then(|graph| match self.config.device {
                DeviceChoice::Auto => self.compared(graph, plan, fetch, &mut worth),
                _ => Ok(graph),
            });
        Assessed { graph, worth }
    }

    /// The graph with its build sides chosen, unless the device has nothing to do, an earlier run refused it,
    /// or it is too small.
    fn supported(
        &self,
        mut found: PipelineGraph,
        plan: &Arc<dyn ExecutionPlan>,
        worth: &mut Worth,
    ) -> Result<PipelineGraph, Reason> {
        let root = found.root();
        let all = root.returns_rows() && root.top().is_none() && !root.sorts();
        if all && root.is_whole() {
            return Err(Reason::Node {
                node: "ProjectionExec".into(),
                detail: "every row is returned: nothing for the device to do".into(),
            });
        }
        let shape = self.keys.shape(root);
        if let Some(reason) = self.session.engine().history().refusal(shape) {
            return Err(reason);
        }
        found.root_mut().shape = Some(shape);
        let found = self.choose_builds(found)?;
        if self.config.device != DeviceChoice::Auto {
            return Ok(found);
        }
        let least = self.config.min_rows.0;
        if let Some(rows) = largest_table(&found).filter(|rows| *rows < least) {
            return Err(Reason::Setting {
                setting: "galatea.tuning.min_rows",
                value: format!("{least}, the largest table has {rows} rows"),
            });
        }
        let root = found.root();
        if let (PipelineSource::Groups(groups), true) = (&root.source, root.returns_rows())
            && !matches!(PlanNode::of(plan), PlanNode::Aggregate(_))
            && self.are_few(groups, worth)
        {
            return Err(Reason::Node {
                node: "FilterExec".into(),
                detail: "few groups are filtered when they have been returned".into(),
            });
        }
        if matches!(root.source, PipelineSource::Plan(_)) {
            return Err(Reason::Node {
                node: "scan".into(),
                detail: "rows that CPU operators compute would be encoded only to be read once (galatea.device = 'gpu' forces it)".into(),
            });
        }
        Ok(found)
    }

    /// Compares the predicted times on the CPU and on the device.
    fn compared(
        &self,
        mut found: PipelineGraph,
        plan: &Arc<dyn ExecutionPlan>,
        fetch: Option<usize>,
        worth: &mut Worth,
    ) -> Result<PipelineGraph, Reason> {
        let mut priced = self.priced(found.root(), plan, fetch, false);
        let is_multiplied = priced.host.predicted >= POLICY.multiplied * priced.host.cautious;
        if priced.verdict == Verdict::Cpu && is_multiplied {
            let cautious = self.priced(found.root(), plan, fetch, true);
            if cautious.verdict != Verdict::Cpu {
                worth.is_cautious = true;
                priced = cautious;
            }
        }
        let history = self.session.engine().history();
        let Priced {
            host,
            time,
            query,
            candidate,
            verdict,
        } = priced;
        // The gain is compared with the measured time of the query, so it is not corrected.
        let gain = (host.predicted - time.hot).max(0.0);
        if candidate.hot <= candidate.cpu {
            worth.hot_gain += gain;
        }
        let Candidate { hot, cpu, unpaid, .. } = candidate;
        match verdict {
            Verdict::Device => {
                worth.gain += gain;
                worth.made.extend(time.once);
                found.root_mut().prediction = Some(Prediction {
                    hot: seconds(hot),
                    unpaid: seconds(unpaid),
                    cpu: seconds(cpu),
                });
                Ok(found)
            }
            Verdict::WarmUp => {
                let (shares, loaded) = (time.shares(cpu - hot, history), time.loaded());
                worth.waiting.push(PendingWarmup {
                    shares,
                    loaded,
                    paid: candidate.paid(),
                    host,
                    query,
                    cores: self.estimator.cores(),
                    config: self.config.clone(),
                    place_again,
                    cpu: Arc::clone(plan),
                    graph: found,
                });
                Err(warming_up(&candidate))
            }
            Verdict::Cpu => Err(Reason::Cost {
                device: seconds(hot + unpaid),
                device_basis: Basis::Predicted,
                cpu: seconds(cpu),
                cpu_basis: Basis::Predicted,
            }),
        }
    }

    /// The predicted times of a subtree, limited to `fetch` rows. `is_cautious`: no operator multiplies rows.
    fn priced(
        &self,
        root: PipelineRef<'_>,
        plan: &Arc<dyn ExecutionPlan>,
        fetch: Option<usize>,
        is_cautious: bool,
    ) -> Priced {
        // The prediction is for all rows, so the measured times of a query with LIMIT do not correct it.
        let query = self.query.filter(|_| fetch.is_none());
        let (estimator, query) = match is_cautious {
            true => (&self.estimator.cautious(), query.map(QueryOnHost::cautious)),
            false => (&self.estimator, query),
        };
        let mut host = estimator.host_time(plan);
        let time = estimator.device_time(root, plan, self.session, &self.keys);
        if let (Some(fetch), true) = (fetch, root.returns_rows()) {
            // The CPU stops after `fetch` rows, and so does the pipeline once its columns are resident.
            host = host.scaled((fetch as f64 / estimator.rows(plan).max(1.0)).min(1.0));
        }
        let history = self.session.engine().history();
        let correction = query.map_or_else(
            || Correction::of_others(history),
            |query| query.correction(history),
        );
        let candidate = Candidate {
            defers: self.defers,
            ..time.candidate((host, correction), self.config.warmup.0, history)
        };
        let verdict = decide(&candidate);
        tracing::debug!(?candidate, ?verdict, is_cautious, "a subtree was priced");
        Priced {
            host,
            time,
            query,
            candidate,
            verdict,
        }
    }

    /// Whether an aggregate is expected to have so few groups that it is better to return its result than to
    /// keep it on the device. The number of an earlier run counts, or else the estimate.
    fn are_few(&self, groups: &Arc<dyn ExecutionPlan>, worth: &mut Worth) -> bool {
        let found = |side: &BuildSide| found_in_rows(self.session, &self.keys, side);
        let alone = subtree(groups, &finder(&found, false)).and_then(Result::ok);
        let shape = alone.map(|alone| self.keys.shape(alone.root()));
        let few = FewGroups {
            shape,
            estimate: self.estimator.groups(groups),
        };
        let are_few = few.are_few(self.session, self.config);
        if are_few {
            worth.few.push(few);
        }
        are_few
    }

    /// Chooses the build sides that pipelines build on the device: large ones, and those that an earlier run
    /// could not build on the host; but none that an earlier run could not build on the device. Pipelines
    /// with equal results become one.
    fn choose_builds(&self, mut graph: PipelineGraph) -> Result<PipelineGraph, Reason> {
        self.choose_builds_of(graph.root_id(), &mut graph)?;
        let same_rows = |a: &Arc<dyn ExecutionPlan>, b: &Arc<dyn ExecutionPlan>| {
            gives_same_rows(a) && self.keys.same_rows(a, b)
        };
        Ok(graph.connected().sharing(&same_rows))
    }

    fn choose_builds_of(&self, id: PipelineId, graph: &mut PipelineGraph) -> Result<(), Reason> {
        let engine = self.session.engine();
        let refusal = |shape| engine.history().refusal(shape);
        let device = engine.opened(self.config);
        let rates = device.map(|device| DeviceRates {
            machine: device.machine(),
            link: device.link_rate(),
            memory: device.device().budget().limit(),
        });
        let of_files = matches!(graph.pipeline(id).source, PipelineSource::Files { .. });
        for number in 0..graph.pipeline(id).build_sides.len() {
            let side = &graph.pipeline(id).get().build_sides[number];
            let (build_side, shape) = (self.keys.build_side(side), self.keys.build(side, graph));
            let collected = refusal(build_side);
            let (build, limit) = (side.build, side.limit.clone());
            let mut why = limit.clone();
            let build = build.and_then(|build| {
                let rows = graph.pipeline(build.pipeline).rows;
                let large = rows.is_none_or(|rows| rows >= self.config.build_rows.0);
                let refused = refusal(shape).or_else(|| self.choose_builds_of(build.pipeline, graph).err());
                let only = limit.is_some() || collected.is_some();
                let taken = refused.is_none() && (large || only);
                why = refused.or(why.take());
                taken.then_some(Build {
                    shape: Some(shape),
                    ..build
                })
            });
            let side = &mut graph.pipeline_mut(id).build_sides[number];
            side.build = build;
            side.shape = Some(build_side);
            side.key_scan = match side.build.is_some() && of_files {
                true => KeyScan::of(side.plan.plan(), &side.key),
                false => None,
            };
            let is_remembered = of_files && (side.build.is_none() || side.key_scan.is_some());
            side.rows_key = is_remembered.then(|| self.keys.build_side_rows(side));
            if build.is_some() {
                let rows = self.estimator.rows(side.plan.plan());
                if let Some(rates) = &rates {
                    joins::choose(graph, (id, number), rows, rates);
                }
                continue;
            }
            if let Some(reason) = collected.or(limit.as_ref().and(why)) {
                return Err(reason);
            }
        }
        Ok(())
    }
}

/// The number of rows of the largest table that the pipelines scan; `None` if one of them is unknown.
fn largest_table(graph: &PipelineGraph) -> Option<u64> {
    let scans = graph.pipelines().filter(|pipeline| pipeline.row_sides.is_empty());
    let rows = scans.map(|scan| scan.rows).collect::<Option<Vec<_>>>()?;
    rows.into_iter().max()
}

/// The reason of a subtree that stays on the CPU because its warm-up is missing.
fn warming_up(candidate: &Candidate) -> Reason {
    let (hot, cpu) = (seconds(candidate.hot), seconds(candidate.cpu));
    match candidate.background {
        true => Reason::Cold {
            hot,
            first: seconds(candidate.cold()),
            cpu,
            paid: (candidate.paid() * 100.0) as u32,
        },
        false => Reason::Cost {
            device: seconds(candidate.hot + candidate.unpaid),
            device_basis: Basis::PredictedWithLoading,
            cpu,
            cpu_basis: Basis::Predicted,
        },
    }
}

/// The reason why a run refused the rows of a build side: repeated keys, for example.
pub(super) fn found_in_rows(session: &Session, keys: &Keys<'_>, side: &BuildSide) -> Option<Reason> {
    let refusal = session.engine().history().refusal(keys.build_side(side));
    refusal.filter(Reason::is_of_rows)
}

/// The subtree of `plan` as it would be placed now, after a run of it has refused a build side.
///
/// # Errors
/// The reason why no subtree can be placed.
pub(super) fn place_again(
    plan: &Arc<dyn ExecutionPlan>,
    session: &Arc<Session>,
    config: &GalateaConfig,
) -> Result<PipelineGraph, Reason> {
    let assessment = Assessment::new(session, config, 1);
    let found = |side: &BuildSide| found_in_rows(session, &assessment.keys, side);
    let finder = finder(&found, config.device != DeviceChoice::Auto);
    let sorted = sort::below(plan, &finder).map(|(_, found)| found);
    let found = sorted.or_else(|| subtree(plan, &finder));
    // Rows of groups are a candidate only because of the sort above them.
    let mut found = found.unwrap_or_else(|| rows_subtree(plan, plan.schema(), &finder))?;
    found.root_mut().shape = Some(assessment.keys.shape(found.root()));
    assessment.choose_builds(found)
}
