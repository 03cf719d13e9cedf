//! Whether subtrees of a plan that the device can run are worth it, and which build sides their pipelines
//! make.

use super::cost::Estimator;
use super::cost::correction::{Correction, QueryOnHost};
use super::find::{finder, subtree};
use super::sort;
use super::waiting::Waiting;
use crate::config::{DeviceChoice, GalateaConfig};
use crate::graph::key::Keys;
use crate::graph::{Build, BuildSide, PipelineGraph, PipelineId, PipelineSource, PlanKey, Prediction};
use crate::history::OneTime;
use crate::session::Session;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use galatea_base::reason::{Basis, Reason};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

pub(super) fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Groups that are taken for few until a run shows how many they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct FewGroups {
    /// The pipeline that returns them.
    shape: Option<PlanKey>,
    estimate: f64,
}

impl FewGroups {
    /// Whether they are few, for all that is known now.
    pub(super) fn are_few(&self, session: &Session, config: &GalateaConfig) -> bool {
        let seen = self
            .shape
            .and_then(|shape| session.engine().history().returned(shape));
        let groups = seen.map_or(self.estimate, |groups| groups as f64);
        groups < config.build_rows.0 as f64
    }
}

/// What the subtrees of one plan are worth.
pub(super) struct Assessment<'a> {
    pub(super) session: &'a Arc<Session>,
    pub(super) config: &'a GalateaConfig,
    pub(super) estimator: Estimator,
    pub(super) keys: Keys<'a>,
    /// The query that the plan computes, where its measured times count.
    pub(super) query: Option<QueryOnHost>,
    /// Whether subtrees that lack something are left to the background, even if a run would pay for it.
    defers: bool,
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

impl<'a> Assessment<'a> {
    /// Of a plan none of whose subtrees is placed.
    pub(super) fn new(session: &'a Arc<Session>, config: &'a GalateaConfig, cores: usize) -> Self {
        Self {
            session,
            config,
            estimator: Estimator::new(cores),
            keys: Keys::new(config),
            query: None,
            defers: false,
            waiting: RefCell::default(),
            made: RefCell::default(),
            few: RefCell::default(),
            gain: Cell::new(0.0),
            hot_gain: Cell::new(0.0),
        }
    }

    /// The assessment for the query of that key, which `plan` computes.
    pub(super) fn of_query(self, key: PlanKey, plan: &Arc<dyn ExecutionPlan>) -> Self {
        let predicted = self.estimator.host_seconds(plan);
        Self {
            query: Some(QueryOnHost { key, predicted }),
            ..self
        }
    }

    /// The same, which leaves all that is missing to the background.
    pub(super) fn deferring(self) -> Self {
        Self { defers: true, ..self }
    }

    /// Whether some subtree stayed on the CPU for the time of loading its columns alone.
    pub(super) fn waits_for_loading(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// Whether the device is expected to be faster, unless it is forced.
    pub(super) fn worthwhile(
        &self,
        found: PipelineGraph,
        plan: &Arc<dyn ExecutionPlan>,
        fetch: Option<usize>,
    ) -> Result<PipelineGraph, Reason> {
        let root = found.root();
        let all = root.materialises() && root.top().is_none() && !root.sorts();
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
        let mut found = found;
        found.root_mut().shape = Some(shape);
        let mut found = self.choose_builds(found)?;
        let root = found.root();
        if self.config.device != DeviceChoice::Auto {
            return Ok(found);
        }
        let least = self.config.min_rows.0;
        if let Some(rows) = root.rows.filter(|rows| *rows < least) {
            return Err(Reason::Setting {
                setting: "galatea.min_rows",
                value: format!("{least}, the table has {rows} rows"),
            });
        }
        if let (PipelineSource::Groups(groups), true) = (&root.source, root.materialises())
            && !plan.is::<AggregateExec>()
            && self.are_few(groups)
        {
            return Err(Reason::Node {
                node: "FilterExec".into(),
                detail: "few groups are filtered when they have been returned".into(),
            });
        }
        if matches!(root.source, PipelineSource::Plan(_)) {
            return Err(Reason::Node {
                node: "scan".into(),
                detail: "rows made by CPU operators would be encoded only to be read once (galatea.device = 'gpu' forces it)".into(),
            });
        }
        let mut host = self.estimator.host_time(plan);
        let time = self.estimator.device_time(root, plan, self.session, &self.keys);
        if let (Some(fetch), true) = (fetch, root.materialises()) {
            // The CPU stops when it has the rows, and so does the pipeline, once its columns are there.
            host = host.scaled((fetch as f64 / self.estimator.rows(plan).max(1.0)).min(1.0));
        }
        let history = self.session.engine().history();
        // Of a query with LIMIT the prediction is for all rows.
        let query = self.query.filter(|_| fetch.is_none());
        let correction = query.map_or_else(
            || Correction::of_others(history),
            |query| query.correction(history),
        );
        let loaded = time.loaded();
        let (cpu, time) = (host.corrected(correction), time.corrected(correction));
        let background = self.config.background.0;
        let device = match background {
            true => time.whole(),
            false => time.unpaid(history),
        };
        // The gain is compared with the measured time of the query, so it is not corrected.
        let gain = (host.predicted - loaded.hot).max(0.0);
        if time.hot <= cpu {
            self.hot_gain.set(self.hot_gain.get() + gain);
        }
        let defers = self.defers && !time.once.is_empty();
        let suits = time.suits((host, correction), background, history);
        let (hot, cold) = (time.hot, time.whole());
        tracing::debug!(
            hot,
            cold,
            cpu,
            cautious = host.cautious,
            suits,
            "a subtree was priced"
        );
        if !defers && suits {
            self.gain.set(self.gain.get() + gain);
            self.made.borrow_mut().extend(time.once);
            let prediction = Prediction {
                device: seconds(device),
                cpu: seconds(cpu),
            };
            found.root_mut().prediction = Some(prediction);
            return Ok(found);
        }
        let loading = time.hot <= cpu;
        let (hot, paid) = (seconds(time.hot), time.paid(history));
        if loading {
            self.waiting.borrow_mut().push(Waiting {
                shares: time.shares(cpu - time.hot, history),
                loaded,
                paid,
                host,
                query,
                cores: self.estimator.cores(),
                config: self.config.clone(),
                place_again,
                cpu: Arc::clone(plan),
                graph: found,
            });
        }
        if loading && background {
            return Err(Reason::Cold {
                hot,
                first: seconds(device),
                cpu: seconds(cpu),
                paid: (paid * 100.0) as u32,
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

    /// Whether an aggregate is expected to have so few groups that its result is better returned than
    /// kept on the device: as an earlier run of it had, or else by the estimate.
    fn are_few(&self, groups: &Arc<dyn ExecutionPlan>) -> bool {
        let found = |side: &BuildSide| found_in_rows(self.session, &self.keys, side);
        let alone = subtree(groups, &finder(&found, false)).and_then(Result::ok);
        let shape = alone.map(|alone| self.keys.shape(alone.root()));
        let few = FewGroups {
            shape,
            estimate: self.estimator.groups(groups),
        };
        let are_few = few.are_few(self.session, self.config);
        if are_few {
            self.few.borrow_mut().push(few);
        }
        are_few
    }

    /// Chooses which build sides pipelines make: those of large tables, and those that an earlier run could
    /// not arrange on the host; unless one has shown that they cannot be made so.
    fn choose_builds(&self, mut graph: PipelineGraph) -> Result<PipelineGraph, Reason> {
        self.choose_builds_of(graph.root_id(), &mut graph)?;
        Ok(graph.connected())
    }

    fn choose_builds_of(&self, id: PipelineId, graph: &mut PipelineGraph) -> Result<(), Reason> {
        let refusal = |shape| self.session.engine().history().refusal(shape);
        for number in 0..graph.pipeline(id).dimensions.len() {
            let side = &graph.pipeline(id).get().dimensions[number];
            let (dimension, shape) = (self.keys.dimension(side), self.keys.build(side, graph));
            let collected = refusal(dimension);
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
            let side = &mut graph.pipeline_mut(id).dimensions[number];
            side.build = build;
            side.shape = Some(dimension);
            if build.is_some() {
                continue;
            }
            if let Some(reason) = collected.or(limit.as_ref().and(why)) {
                return Err(reason);
            }
        }
        Ok(())
    }
}

/// What a run has found in the rows of a build side that speaks against it.
pub(super) fn found_in_rows(session: &Session, keys: &Keys<'_>, side: &BuildSide) -> Option<Reason> {
    let refusal = session.engine().history().refusal(keys.dimension(side));
    refusal.filter(Reason::is_of_rows)
}

/// The subtree of `plan` as it would be placed now, after a run of it has refused a build side.
///
/// # Errors
/// Why there is none.
pub(super) fn place_again(
    plan: &Arc<dyn ExecutionPlan>,
    session: &Arc<Session>,
    config: &GalateaConfig,
) -> Result<PipelineGraph, Reason> {
    let assessment = Assessment::new(session, config, 1);
    let found = |side: &BuildSide| found_in_rows(session, &assessment.keys, side);
    let finder = finder(&found, config.device != DeviceChoice::Auto);
    let sorted = sort::below(plan, &finder).map(|(_, found)| found);
    let nothing = || Reason::Node {
        node: plan.name().into(),
        detail: "nothing to place".into(),
    };
    let found = sorted.or_else(|| subtree(plan, &finder));
    let mut found = found.ok_or_else(nothing)??;
    found.root_mut().shape = Some(assessment.keys.shape(found.root()));
    assessment.choose_builds(found)
}
