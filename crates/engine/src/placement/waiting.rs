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
use crate::config::{Fallback, GalateaConfig};
use crate::graph::{InputPlan, PipelineGraph, PlanKey, renewed_host};
use crate::history::OneTime;
use crate::nodes::{GpuExec, PlaceAgain};
use crate::report::PlanReport;
use crate::runtime::Runtime;
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
    fn time(&self, runtime: &Runtime) -> DeviceTime {
        DeviceTime {
            once: Estimator::new(self.cores).once(self.graph.root(), runtime, &self.config),
            ..self.loaded.clone()
        }
    }

    /// Whether it still has to wait: other runs may have paid for or loaded what it lacks, too.
    pub(super) fn waits(&self, runtime: &Runtime) -> bool {
        let history = runtime.history();
        let correction = self.query.map_or_else(
            || Correction::of_others(history),
            |query| query.correction(history),
        );
        let time = self.time(runtime).corrected(correction);
        !time.suits((self.host, correction), self.config.background.0, history)
    }

    /// Seconds that runs have lost for want of the columns and kernels that are still missing. A column that
    /// several queries wait for counts the time of all of them.
    fn lost(&self, runtime: &Runtime) -> f64 {
        let missing = self.time(runtime).once.into_iter();
        missing.map(|one| runtime.history().forgone(one.what)).sum()
    }

    /// Whether what it lacks is worth the memory: there is room for it, or runs have paid for it.
    fn is_worth_making(&self, runtime: &Runtime) -> bool {
        let store = runtime.store(&self.config);
        let room = store.memory_limit().saturating_sub(store.memory_used());
        let wanted = Estimator::new(self.cores).missing_bytes(self.graph.root(), runtime, &self.config);
        wanted <= room as f64 || self.time(runtime).unpaid(runtime.history()) <= self.host.predicted
    }

    /// Makes what it lacks; if the device refuses it, then what its parts lack, `levels` times.
    fn make_with_parts<'w>(
        &'w self,
        runtime: &'w Arc<Runtime>,
        context: &'w Arc<TaskContext>,
        find: FindWaiting,
        levels: u32,
    ) -> BoxFuture<'w, Result<()>> {
        async move {
            let outcome = self.make(runtime, Arc::clone(context)).await;
            if outcome.is_ok() || levels == 0 {
                return outcome;
            }
            // What was refused is remembered, so another subtree is found now.
            for part in find(runtime, &self.config, self.cores, renewed_host(&self.cpu)?)? {
                part.make_with_parts(runtime, context, find, levels - 1).await?;
            }
            Ok(())
        }
        .boxed()
    }

    /// Runs it on the device and drops its rows, unless other queries have warmed it up meanwhile.
    async fn make(&self, runtime: &Arc<Runtime>, context: Arc<TaskContext>) -> Result<()> {
        if self.time(runtime).once.is_empty() {
            return Ok(());
        }
        let mut graph = self.graph.clone();
        // Rules that come after placement have gone over the query's inputs, and not over these.
        for input in graph.inputs_mut() {
            let plan = Arc::clone(input.plan());
            *input = InputPlan::new(runtime.finished(plan, &context)?);
        }
        let config = GalateaConfig {
            fallback: Fallback::Error,
            ..self.config.clone()
        };
        let node = GpuExec::new(
            graph,
            renewed_host(&self.cpu)?,
            Arc::clone(runtime),
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
    fn(&Arc<Runtime>, &GalateaConfig, usize, Arc<dyn ExecutionPlan>) -> Result<Vec<Waiting>>;

/// How often a subtree is replaced by its parts in one piece of work.
const LEVELS: u32 = 8;

/// Leaves what the subtrees of a query lack to the background, if it is to be made there.
pub(super) fn prepare(
    waiting: &[Waiting],
    query: PlanKey,
    runtime: &Arc<Runtime>,
    context: &Arc<TaskContext>,
    find: FindWaiting,
) {
    let wanted = |one: &&Waiting| one.config.background.0 && one.is_worth_making(runtime);
    let environment = context.runtime_env();
    let waiting: Vec<Waiting> = waiting.iter().filter(wanted).cloned().collect();
    if waiting.is_empty() {
        return;
    }
    // A session that is closed waits for nothing: its settings know the session, too.
    let session = Arc::downgrade(runtime);
    let settings = SessionConfig::from(context.session_config().options().as_ref().clone());
    let context = TaskContext::default();
    let context = context.with_session_config(settings).with_runtime(environment);
    let context = Arc::new(context);
    let (priced, of) = (waiting.clone(), Weak::clone(&session));
    let lost = move || {
        let runtime = of.upgrade();
        runtime.map_or(0.0, |runtime| priced.iter().map(|one| one.lost(&runtime)).sum())
    };
    let work = move || {
        async move {
            for one in &waiting {
                let Some(runtime) = session.upgrade() else { break };
                one.make_with_parts(&runtime, &context, find, LEVELS).await?;
            }
            Ok(())
        }
        .boxed()
    };
    runtime.background().leave(query, Box::new(lost), Box::new(work));
}
