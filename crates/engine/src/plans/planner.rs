//! Integration of cached plans into DataFusion's planning.
//!
//! DataFusion analyses and optimises a logical plan, then the session's query planner creates a physical one.
//! Reuse has to precede all of it, and needs the session, which rules cannot access. So the first analyzer
//! rule, [`DeferPlanning`], replaces a query by one node without inputs, [`DeferredQuery`], which passes the
//! other rules unchanged, with the columns that they would give the query; [`ReusingPlanner`] finds a cached
//! plan for the query, or plans the original query with reuse turned off.

use super::depth::{check_stack, levels_of_plan};
use super::missing_files::refuse_missing_files;
use super::query::Query;
use super::unplanned::refuse_subqueries;
use super::{Found, PlanCache};
use crate::config::{Count, GalateaConfig};
use crate::session::Session;
use crate::spilling_join::with_bounded_memory;
use async_trait::async_trait;
use datafusion::catalog;
use datafusion::common::display::{PlanType, StringifiedPlan};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, DataFusionError, Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::SessionState;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{
    Distinct, Explain, Expr, Extension, LogicalPlan, TableSource, UserDefinedLogicalNode,
    UserDefinedLogicalNodeCore,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_plan::ExecutionPlan;
use galatea_base::stack::{for_levels, poll_for_levels};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A query before any rule.
#[derive(Clone)]
pub(super) enum Asked {
    /// The logical plan of the query.
    Plan(Arc<LogicalPlan>),
    /// A query with a cached string, over the tables of its scans.
    Known {
        query: Arc<Query>,
        tables: Vec<Arc<dyn TableSource>>,
    },
}

impl Asked {
    /// The logical plan.
    fn plan(&self) -> Result<Cow<'_, LogicalPlan>> {
        Ok(match self {
            Self::Plan(plan) => Cow::Borrowed(plan),
            Self::Known { query, tables } => Cow::Owned(query.over(tables)?),
        })
    }
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(plan) => f.debug_tuple("Plan").field(plan).finish(),
            Self::Known { query, .. } => f.debug_tuple("Known").field(query).finish(),
        }
    }
}

impl PartialEq for Asked {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Plan(one), Self::Plan(other)) => one == other,
            (
                Self::Known { query, tables },
                Self::Known {
                    query: other,
                    tables: others,
                },
            ) => {
                query.same(other)
                    && tables.len() == others.len()
                    && tables
                        .iter()
                        .zip(others)
                        .all(|(one, other)| Arc::ptr_eq(one, other))
            }
            _ => false,
        }
    }
}

impl Eq for Asked {}

/// A query that [`ReusingPlanner`] plans as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeferredQuery {
    pub(super) asked: Asked,
    /// Its columns after all rules: callers that create a table from the rows use it.
    pub(super) schema: DFSchemaRef,
    /// The query after the analyzer's rules, if it was analysed already.
    pub(super) analysed: Analysed,
    /// Levels of its nodes and expressions.
    pub(super) levels: usize,
}

/// A query after the analyzer's rules, from which planning continues. It is derived from the query, so nodes
/// that differ only in it are equal.
#[derive(Debug, Clone, Default)]
pub(super) struct Analysed(pub(super) Option<Arc<LogicalPlan>>);

impl PartialEq for Analysed {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Analysed {}

/// The optimizer hashes a plan for each of its passes, so this hash is coarse and fast.
impl Hash for DeferredQuery {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.schema.fields().len().hash(state);
    }
}

impl PartialOrd for DeferredQuery {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (&self.asked, &other.asked) {
            (Asked::Plan(one), Asked::Plan(other)) => one.partial_cmp(other),
            _ => (self == other).then_some(Ordering::Equal),
        }
    }
}

impl DeferredQuery {
    /// The plan that consists of this node.
    pub(super) fn into_plan(self) -> LogicalPlan {
        let node = Arc::new(self);
        LogicalPlan::Extension(Extension { node })
    }

    pub(super) fn of(plan: &LogicalPlan) -> Option<&Self> {
        let LogicalPlan::Extension(extension) = plan else {
            return None;
        };
        let node: &dyn UserDefinedLogicalNode = extension.node.as_ref();
        node.as_any().downcast_ref()
    }
}

impl UserDefinedLogicalNodeCore for DeferredQuery {
    fn name(&self) -> &'static str {
        "DeferredQuery"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.asked.plan() {
            Ok(plan) => write!(f, "DeferredQuery: {}", plan.display()),
            Err(_) => f.write_str("DeferredQuery"),
        }
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, _inputs: Vec<LogicalPlan>) -> Result<Self> {
        Ok(self.clone())
    }
}

/// The first analyzer rule: defers the planning of whole queries, if `galatea.cache.plans` caches plans.
#[derive(Debug)]
pub struct DeferPlanning {
    /// The analyzer's other rules.
    following: Vec<Arc<dyn AnalyzerRule + Send + Sync>>,
}

impl DeferPlanning {
    /// The rule for an analyzer with those other rules.
    #[must_use]
    pub fn before(following: Vec<Arc<dyn AnalyzerRule + Send + Sync>>) -> Self {
        Self { following }
    }

    /// The query after the other rules.
    fn analysed(&self, plan: &LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        (self.following.iter()).try_fold(plan.clone(), |plan, rule| rule.analyze(plan, options))
    }

    /// The final columns of an analysed query. The columns that contain NULL are only known once the
    /// optimizer has rewritten subqueries to joins, so all are nullable then.
    fn schema(analysed: &LogicalPlan) -> Result<DFSchemaRef> {
        let schema = Arc::clone(analysed.schema());
        if !analysed.exists(|node| Ok(hides_nulls(node)))? {
            return Ok(schema);
        }
        let fields = schema.iter().map(|(relation, field)| {
            let field = field.as_ref().clone().with_nullable(true);
            (relation.cloned(), Arc::new(field))
        });
        let nullable = DFSchema::new_with_metadata(fields.collect(), schema.metadata().clone())?;
        Ok(Arc::new(nullable))
    }
}

/// Whether a column of the node may be non-nullable in its schema, but nullable in that of its optimised
/// plan.
fn hides_nulls(node: &LogicalPlan) -> bool {
    let mut subqueries = false;
    // The closure does not fail.
    let _ = node.apply_subqueries(|_| {
        subqueries = true;
        Ok(TreeNodeRecursion::Stop)
    });
    subqueries || matches!(node, LogicalPlan::Distinct(Distinct::On(_)))
}

impl AnalyzerRule for DeferPlanning {
    fn name(&self) -> &'static str {
        "galatea_defer_planning"
    }

    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        if DeferredQuery::of(&plan).is_some() {
            return Ok(plan);
        }
        // A query that was deferred before, and has become a part of another one since, is planned with that.
        let plan = plan.transform_down_with_subqueries(|node| {
            Ok(match DeferredQuery::of(&node) {
                Some(query) => Transformed::yes(query.asked.plan()?.into_owned()),
                None => Transformed::no(node),
            })
        })?;
        let plan = plan.data;
        let levels = levels_of_plan(&plan)?;
        let config = options.extensions.get::<GalateaConfig>();
        if !is_query(&plan) || config.is_none_or(|config| config.plan_cache.0 == 0) {
            check_stack(levels)?;
            return Ok(plan);
        }
        // Planning raises the errors of a query.
        let analysed = for_levels(levels, || {
            let analysed = self.analysed(&plan, options)?;
            Ok::<_, DataFusionError>((Self::schema(&analysed)?, analysed))
        });
        let Ok((schema, analysed)) = analysed else {
            check_stack(levels)?;
            return Ok(plan);
        };
        let query = DeferredQuery {
            asked: Asked::Plan(Arc::new(plan)),
            schema,
            analysed: Analysed(Some(Arc::new(analysed))),
            levels,
        };
        Ok(query.into_plan())
    }
}

/// Whether a plan returns rows and does nothing else.
fn is_query(plan: &LogicalPlan) -> bool {
    !matches!(
        plan,
        LogicalPlan::Statement(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::Extension(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::DescribeTable(_)
    )
}

/// A query planner that reuses cached plans; another planner creates the missing ones.
#[derive(Debug)]
pub struct ReusingPlanner {
    plans: Arc<PlanCache>,
    session: Arc<Session>,
    inner: Arc<dyn QueryPlanner + Send + Sync>,
}

impl ReusingPlanner {
    /// The planner of a session that had the planner `inner`, with its cached plans.
    #[must_use]
    pub fn new(
        plans: Arc<PlanCache>,
        session: Arc<Session>,
        inner: Arc<dyn QueryPlanner + Send + Sync>,
    ) -> Self {
        Self {
            plans,
            session,
            inner,
        }
    }

    async fn plan(&self, query: &DeferredQuery, asking: &SessionState) -> Result<Arc<dyn ExecutionPlan>> {
        let lookup = self.plans.lookup_in(asking);
        let pending = match self.plans.find(&query.asked, &lookup, &self.session)? {
            Found::Plan(plan) => return Ok(plan),
            Found::Nothing(pending) => pending,
        };
        let state = without_reuse(asking);
        let plan = match &query.analysed.0 {
            // Analysing it again would take the same time again.
            Some(analysed) => {
                let analysed = LogicalPlan::clone(analysed);
                let optimised = state.optimizer().optimize(analysed, &state, |_, _| {})?;
                let planner = Arc::clone(state.query_planner());
                planner.create_physical_plan(&optimised, &state).await?
            }
            None => state.create_physical_plan(query.asked.plan()?.as_ref()).await?,
        };
        self.plans
            .keep(pending, &plan, (asking, &lookup.config), &self.session);
        Ok(plan)
    }
}

#[async_trait]
impl QueryPlanner for ReusingPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn catalog::Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let state = || match session.as_any().downcast_ref::<SessionState>() {
            Some(state) => Ok(state),
            None => internal_err!("a deferred query came with a session that is not DataFusion's"),
        };
        if let Some(query) = DeferredQuery::of(plan) {
            return poll_for_levels(query.levels, self.plan(query, state()?)).await;
        }
        if let LogicalPlan::Explain(explain) = plan
            && let Some(query) = DeferredQuery::of(&explain.plan)
        {
            let plan = Arc::new(query.asked.plan()?.into_owned());
            let explain = LogicalPlan::Explain(as_asked(explain, &plan));
            let state = without_reuse(state()?);
            return poll_for_levels(query.levels, state.create_physical_plan(&explain)).await;
        }
        if !matches!(plan, LogicalPlan::Explain(_)) {
            refuse_subqueries(plan)?;
            refuse_missing_files(plan)?;
        }
        let state = session.as_any().downcast_ref::<SessionState>();
        match state.and_then(with_bounded_memory) {
            Some(state) => self.inner.create_physical_plan(plan, &state).await,
            None => self.inner.create_physical_plan(plan, session).await,
        }
    }
}

/// The session with reuse turned off.
fn without_reuse(state: &SessionState) -> SessionState {
    let mut state = state.clone();
    let extensions = &mut state.config_mut().options_mut().extensions;
    if let Some(config) = extensions.get_mut::<GalateaConfig>() {
        config.plan_cache = Count(0);
    }
    state
}

/// EXPLAIN of `query` before any rule.
fn as_asked(explain: &Explain, query: &Arc<LogicalPlan>) -> Explain {
    let initial = |plan: &&StringifiedPlan| plan.plan_type == PlanType::InitialLogicalPlan;
    Explain {
        plan: Arc::clone(query),
        stringified_plans: explain
            .stringified_plans
            .iter()
            .filter(initial)
            .cloned()
            .collect(),
        logical_optimization_succeeded: false,
        ..explain.clone()
    }
}
