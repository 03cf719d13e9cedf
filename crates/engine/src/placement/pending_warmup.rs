//! Subtrees that stay on the CPU because loading their columns and compiling their kernels would take too
//! long.
//!
//! Once a query has run there, the session's background ([`crate::background`]) warms up: it runs the
//! subtrees on the device and drops their rows, so that the next run is as fast as a second run. A warm-up
//! that would evict other columns from the store waits until runs on the CPU have lost half of the time that
//! it takes.

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

/// Rows after which the run of a warm-up may stop.
const ROWS: usize = 1 << 20;

/// A subtree that would be placed if its columns were loaded and its kernels compiled.
#[derive(Debug, Clone)]
pub(super) struct PendingWarmup {
    pub(super) graph: PipelineGraph,
    /// The subtree as DataFusion planned it.
    pub(super) cpu: Arc<dyn ExecutionPlan>,
    pub(super) config: GalateaConfig,
    pub(super) place_again: PlaceAgain,
    /// The query that contains it; `None` in the background.
    pub(super) query: Option<QueryOnHost>,
    /// Cores of the CPU.
    pub(super) cores: usize,
    /// Predicted time on the device if nothing were missing.
    pub(super) loaded: DeviceTime,
    /// Predicted time on the CPU.
    pub(super) host: HostTime,
    /// Share of its warm-up that runs on the CPU had paid at planning time, 0 to 1.
    pub(super) paid: f64,
    /// The shares of the warm-up that a run on the CPU pays.
    pub(super) shares: Vec<OneTime>,
}

impl PendingWarmup {
    /// Predicted time on the device now.
    fn time(&self, session: &Session) -> DeviceTime {
        DeviceTime {
            once: Estimator::new(self.cores).once(self.graph.root(), session, &Keys::new(&self.config)),
            ..self.loaded.clone()
        }
    }

    /// Whether it still has to wait: other runs may have paid for or loaded the missing columns and kernels,
    /// too.
    pub(super) fn waits(&self, session: &Session) -> bool {
        let history = session.engine().history();
        let correction = self.query.map_or_else(
            || Correction::of_others(history),
            |query| query.correction(history),
        );
        let background = self.config.warmup.0;
        let candidate = self
            .time(session)
            .candidate((self.host, correction), background, history);
        decide(&candidate) != Verdict::Device
    }

    /// Seconds that runs have lost because the columns and kernels that are still missing were. A column that
    /// several queries wait for counts the time of all of them.
    fn lost(&self, session: &Session) -> f64 {
        let missing = self.time(session).once.into_iter();
        missing
            .map(|one| session.engine().history().forgone(one.what))
            .sum()
    }

    /// Whether the warm-up is worth its memory: the columns fit in free memory, or runs have paid for them.
    fn is_worth_making(&self, session: &Session) -> bool {
        let store = session.engine().store();
        let room = store.memory_limit().saturating_sub(store.memory_used());
        let wanted = Estimator::new(self.cores).missing_bytes(self.graph.root(), session, &self.config);
        wanted <= room as f64 || self.time(session).unpaid(session.engine().history()) <= self.host.predicted
    }

    /// Warms up the subtree; if the device refuses it, its smaller parts, down to `levels` levels.
    fn make_with_parts<'w>(
        &'w self,
        session: &'w Arc<Session>,
        context: &'w Arc<TaskContext>,
        find: FindPendingWarmups,
        levels: u32,
    ) -> BoxFuture<'w, Result<()>> {
        async move {
            let outcome = self.make(session, Arc::clone(context)).await;
            if outcome.is_ok() || levels == 0 {
                return outcome;
            }
            // The refusal is remembered, so another subtree is found now.
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
        // Rules after placement have processed the query's inputs, but not these.
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

/// The one-time work that a run of these subtrees on the CPU pays a share of.
pub(super) fn forgone(waiting: &[PendingWarmup]) -> Vec<OneTime> {
    let shares = waiting.iter().flat_map(|one| &one.shares);
    shares.copied().collect()
}

/// Finds the subtrees of a plan that wait for their warm-up, if the CPU would use that number of cores.
pub(super) type FindPendingWarmups =
    fn(&Arc<Session>, &GalateaConfig, usize, Arc<dyn ExecutionPlan>) -> Result<Vec<PendingWarmup>>;

/// Number of times that one task of the background replaces a subtree by its parts.
const LEVELS: u32 = 8;

/// Leaves the warm-up of a query's subtrees to the background, if it is enabled and worth it.
pub(super) fn prepare(
    waiting: &[PendingWarmup],
    query: PlanKey,
    session: &Arc<Session>,
    context: &Arc<TaskContext>,
    find: FindPendingWarmups,
) {
    let wanted = |one: &&PendingWarmup| one.config.warmup.0 && one.is_worth_making(session);
    let environment = context.runtime_env();
    let waiting: Vec<PendingWarmup> = waiting.iter().filter(wanted).cloned().collect();
    if waiting.is_empty() {
        return;
    }
    // The task keeps no session open: settings refer to the session, so they are copied.
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
