//! Subtrees that stay on the CPU for the time that loading their columns and compiling their kernels would
//! take.
//!
//! Once a query has run there, the session's background ([`crate::background`]) makes what they lack: by
//! running them on the device, with nobody who reads the rows, so that the next run finds everything as it
//! would be after a first one. Columns that others would have to leave the store for wait until runs on the
//! CPU have lost half of the time that making them takes.

use super::cost::Estimator;
use super::cost::correction::{Correction, HostTime, QueryOnHost};
use super::cost::device::DeviceTime;
use super::decide::{Verdict, decide};
use crate::config::{Fallback, GalateaConfig};
use crate::graph::key::Keys;
use crate::graph::{InputPlan, PipelineGraph, PlanKey, renewed_host};
use crate::history::OneTime;
use crate::nodes::{GpuExec, PlaceAgain};
use crate::report::PlanReport;
use crate::session::Session;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::config::SessionConfig;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use std::sync::{Arc, Weak};

/// Rows after which the first run of a subtree has shown enough.
const ROWS: usize = 1 << 20;

/// A subtree that would be placed if its columns were loaded and its kernels compiled.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) graph: PipelineGraph,
    /// What it computes, as DataFusion planned it.
    pub(super) cpu: Arc<dyn ExecutionPlan>,
    pub(super) config: GalateaConfig,
    pub(super) place_again: PlaceAgain,
    /// The query that it is of; `None` in the background.
    pub(super) query: Option<QueryOnHost>,
    /// Cores of the CPU.
    pub(super) cores: usize,
    /// What it is predicted to take on the device, as if nothing were missing.
    pub(super) loaded: DeviceTime,
    /// What it is predicted to take on the CPU.
    pub(super) host: HostTime,
    /// Share of its warm-up that runs on the CPU had paid when the plan was made, 0 to 1.
    pub(super) paid: f64,
    /// What a run on the CPU pays.
    pub(super) shares: Vec<OneTime>,
}

impl Waiting {
    /// What it takes on the device now.
    fn time(&self, session: &Session) -> DeviceTime {
        DeviceTime {
            once: Estimator::new(self.cores).once(self.graph.root(), session, &Keys::new(&self.config)),
            ..self.loaded.clone()
        }
    }

    /// Whether it still has to wait: other runs may have paid for or loaded what it lacks, too.
    pub(super) fn waits(&self, session: &Session) -> bool {
        let history = session.engine().history();
        let correction = self.query.map_or_else(
            || Correction::of_others(history),
            |query| query.correction(history),
        );
        let background = self.config.background.0;
        let candidate = self
            .time(session)
            .candidate((self.host, correction), background, history);
        decide(&candidate) != Verdict::Device
    }

    /// Seconds that runs have lost for want of the columns and kernels that are still missing. A column that
    /// several queries wait for counts the time of all of them.
    fn lost(&self, session: &Session) -> f64 {
        let missing = self.time(session).once.into_iter();
        missing
            .map(|one| session.engine().history().forgone(one.what))
            .sum()
    }

    /// Whether what it lacks is worth the memory: there is room for it, or runs have paid for it.
    fn is_worth_making(&self, session: &Session) -> bool {
        let store = session.engine().store();
        let room = store.memory_limit().saturating_sub(store.memory_used());
        let wanted = Estimator::new(self.cores).missing_bytes(self.graph.root(), session, &self.config);
        wanted <= room as f64 || self.time(session).unpaid(session.engine().history()) <= self.host.predicted
    }

    /// Makes what it lacks; if the device refuses it, then what its parts lack, `levels` times.
    fn make_with_parts<'w>(
        &'w self,
        session: &'w Arc<Session>,
        context: &'w Arc<TaskContext>,
        find: FindWaiting,
        levels: u32,
    ) -> BoxFuture<'w, Result<()>> {
        async move {
            let outcome = self.make(session, Arc::clone(context)).await;
            if outcome.is_ok() || levels == 0 {
                return outcome;
            }
            // What was refused is remembered, so another subtree is found now.
            for part in find(session, &self.config, self.cores, renewed_host(&self.cpu)?)? {
                part.make_with_parts(session, context, find, levels - 1).await?;
            }
            Ok(())
        }
        .boxed()
    }

    /// Runs it on the device and drops its rows, unless other queries have warmed it up meanwhile.
    async fn make(&self, session: &Arc<Session>, context: Arc<TaskContext>) -> Result<()> {
        if self.time(session).once.is_empty() {
            return Ok(());
        }
        let mut graph = self.graph.clone();
        // Rules that come after placement have gone over the query's inputs, and not over these.
        for input in graph.inputs_mut() {
            let plan = Arc::clone(input.plan());
            *input = InputPlan::new(session.finished(plan, &context)?);
        }
        let config = GalateaConfig {
            fallback: Fallback::Error,
            ..self.config.clone()
        };
        let node = GpuExec::new(
            graph,
            renewed_host(&self.cpu)?,
            Arc::clone(session),
            config,
            self.place_again,
            PlanReport::default(),
        );
        let mut rows = execute_stream(Arc::new(node), context)?;
        let mut seen = 0;
        while seen < ROWS
            && let Some(batch) = rows.next().await
        {
            seen += batch?.num_rows();
        }
        Ok(())
    }
}

/// What a run of subtrees on the CPU pays for what is made once.
pub(super) fn forgone(waiting: &[Waiting]) -> Vec<OneTime> {
    let shares = waiting.iter().flat_map(|one| &one.shares);
    shares.copied().collect()
}

/// Finds the subtrees of a plan that wait, where the CPU would use that number of cores.
pub(super) type FindWaiting =
    fn(&Arc<Session>, &GalateaConfig, usize, Arc<dyn ExecutionPlan>) -> Result<Vec<Waiting>>;

/// How often a subtree is replaced by its parts in one piece of work.
const LEVELS: u32 = 8;

/// Leaves what the subtrees of a query lack to the background, if it is to be made there.
pub(super) fn prepare(
    waiting: &[Waiting],
    query: PlanKey,
    session: &Arc<Session>,
    context: &Arc<TaskContext>,
    find: FindWaiting,
) {
    let wanted = |one: &&Waiting| one.config.background.0 && one.is_worth_making(session);
    let environment = context.runtime_env();
    let waiting: Vec<Waiting> = waiting.iter().filter(wanted).cloned().collect();
    if waiting.is_empty() {
        return;
    }
    // A session that is closed waits for nothing. Its settings hold the session, so they are copied.
    let (engine, number, session) = (session.engine(), session.number(), Arc::downgrade(session));
    let settings = SessionConfig::from(context.session_config().options().as_ref().clone());
    let context = TaskContext::default();
    let context = context.with_session_config(settings).with_runtime(environment);
    let context = Arc::new(context);
    let (priced, of) = (waiting.clone(), Weak::clone(&session));
    let lost = move || {
        let session = of.upgrade();
        session.map_or(0.0, |session| priced.iter().map(|one| one.lost(&session)).sum())
    };
    let work = move || {
        async move {
            for one in &waiting {
                let Some(session) = session.upgrade() else { break };
                one.make_with_parts(&session, &context, find, LEVELS).await?;
            }
            Ok(())
        }
        .boxed()
    };
    engine
        .background()
        .leave(number, query, Arc::new(lost), Box::new(work));
}
