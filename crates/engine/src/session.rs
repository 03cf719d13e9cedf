//! A session: the state of one context and its clones, over an engine that it may share with others.

use crate::engine::Engine;
use crate::report::QueryReports;
use crate::spilling_join::with_spilling_joins;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Physical optimizer rules, in order.
pub type OptimizerRules = Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>;

/// The state, besides its engine, that the queries of a context share.
#[derive(Debug)]
pub struct Session {
    engine: Arc<Engine>,
    number: u64,
    reports: QueryReports,
    environment: Option<Arc<RuntimeEnv>>,
    host_rules: OnceLock<OptimizerRules>,
}

impl Session {
    /// A session of an engine that records its reports in `reports`.
    pub fn new(engine: Arc<Engine>, reports: QueryReports) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        engine.count_session(true);
        Self {
            engine,
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            reports,
            environment: None,
            host_rules: OnceLock::new(),
        }
    }

    /// Sets the session's object stores, which placement needs to find the loaded columns of a file.
    #[must_use]
    pub fn with_environment(mut self, environment: Arc<RuntimeEnv>) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Sets the session's physical optimizer rules other than Galatea's: plans that fall back to the CPU are
    /// optimized with them.
    #[must_use]
    pub fn with_host_rules(self, rules: OptimizerRules) -> Self {
        let _ = self.host_rules.set(rules);
        self
    }

    /// Number of this session among the sessions of the process.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Drops the background work of the session's queries. Returns whether some of it was running; that work
    /// stops at its next step.
    pub fn cancel_background(&self) -> bool {
        self.engine.background().cancel(self.number)
    }

    /// Waits until all background work of the session's queries is done.
    pub async fn finish_background(&self) {
        self.engine.background().finished(self.number).await;
    }

    /// The engine of this session.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// See [`Self::with_host_rules`]; DataFusion's own rules if none were set.
    pub(crate) fn host_rules(&self) -> &OptimizerRules {
        self.host_rules.get_or_init(|| PhysicalOptimizer::new().rules)
    }

    /// Applies the session's physical rules other than Galatea's to a plan. Without them the distribution of
    /// a join's inputs may be undetermined.
    pub(crate) fn finished(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &TaskContext,
    ) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        let (rules, options) = (self.host_rules(), context.session_config().options());
        let plan = (rules.iter()).try_fold(plan, |plan, rule| rule.optimize(plan, options))?;
        with_spilling_joins(plan, context.memory_pool().as_ref())
    }

    /// See [`Self::with_environment`].
    pub(crate) fn environment(&self) -> Option<&Arc<RuntimeEnv>> {
        self.environment.as_ref()
    }

    /// The session's query reports.
    pub fn reports(&self) -> &QueryReports {
        &self.reports
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.cancel_background();
        self.engine.count_session(false);
    }
}
