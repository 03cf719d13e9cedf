//! A session: what belongs to one context and its clones, over an engine that it may share with others.

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

/// What the queries of a context share beside its engine.
#[derive(Debug)]
pub struct Session {
    engine: Arc<Engine>,
    number: u64,
    reports: QueryReports,
    environment: Option<Arc<RuntimeEnv>>,
    host_rules: OnceLock<OptimizerRules>,
}

impl Session {
    /// A session of an engine, whose reports go to `reports`.
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

    /// Object stores of the session, which placement needs to find the loaded columns of a file.
    #[must_use]
    pub fn with_environment(mut self, environment: Arc<RuntimeEnv>) -> Self {
        self.environment = Some(environment);
        self
    }

    /// The session's physical optimizer rules beside ours: what falls back to the CPU is planned with them.
    #[must_use]
    pub fn with_host_rules(self, rules: OptimizerRules) -> Self {
        let _ = self.host_rules.set(rules);
        self
    }

    /// Its number among the sessions of the process.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Drops what its queries have left to the background; whether something was being done, which stops at
    /// its next step.
    pub fn cancel_background(&self) -> bool {
        self.engine.background().cancel(self.number)
    }

    /// Waits until all that its queries have left to the background is done.
    pub async fn finish_background(&self) {
        self.engine.background().finished(self.number).await;
    }

    /// Its engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// See [`Self::with_host_rules`]; DataFusion's own where there are none.
    pub(crate) fn host_rules(&self) -> &OptimizerRules {
        self.host_rules.get_or_init(|| PhysicalOptimizer::new().rules)
    }

    /// A plan after the session's physical rules beside ours, without which a join may not know how its
    /// inputs are distributed.
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
