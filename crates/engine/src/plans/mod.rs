//! Finished plans, kept for queries that come again.
//!
//! Planning takes most of a small query's time, and the cores from all other queries. A session keeps the
//! physical plans of its last queries, and uses one again when nothing that it was made of has changed:
//!
//! ```text
//! the query         logical plan before any rule, compared as a whole, with the functions that it calls                query
//! its tables        stored ones by version; local files by list, times, sizes and inodes; no others are kept           tables
//! the session       settings, registered functions, rules                                                             surroundings
//! placement         device, refusals, measured times, what is in device memory                                        placement::Grounds
//! ```
//!
//! A text that was asked before ([`PlanCache::statement`]) is not even parsed again (`statements`).
//!
//! Each is looked at for every query, and a plan for which one of them differs is made anew. Queries are left
//! alone that call a function which is not immutable, read tables of other kinds, or are recursive, and plans
//! whose operators cannot be copied (`renew`).
//!
//! A kept plan has never run: each use is a copy, so that executions share nothing. It does not keep tables
//! either: a plan over a table of the store goes at the moment when the table is dropped or gets another
//! version ([`galatea_store::StoredTable::version`]).

mod depth;
mod literals;
mod missing_files;
mod planner;
mod query;
mod renew;
mod statements;
mod surroundings;
mod tables;
mod unplanned;

use depth::levels_of_statement;
pub use depth::{MAX_LEVELS, check_statement, with_stack_for};
use planner::{Analysed, Asked, DeferredQuery};
pub use planner::{DeferPlanning, ReusingPlanner};
use renew::renewed;

use crate::config::{DeviceChoice, GalateaConfig};
use crate::metrics::{self, PlanOutcome};
use crate::placement::{Grounds, PlacementExec};
use crate::report::{PlanReport, QueryReport};
use crate::session::Session;
use datafusion::common::{Result, TableReference};
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::TableSource;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement as SqlStatement;
use galatea_base::stack::poll_for_levels;
use galatea_store::{Holder, Identity};
use lru::LruCache;
use parking_lot::Mutex;
use query::Query;
use statements::{Statement, TextKey};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use surroundings::Surroundings;
use tables::TableVersion;

/// Surroundings remembered at most: a session that changes a setting back finds its plans again.
const SURROUNDINGS: usize = 8;

/// Where a plan is found: the surroundings' number, the query's hash. What is found is compared.
type Key = (u64, u64);

/// A plan that was made, and never run.
#[derive(Debug)]
struct Kept {
    query: Arc<Query>,
    tables: Vec<TableVersion>,
    grounds: Grounds,
    plan: Arc<dyn ExecutionPlan>,
    /// Versions of stored tables that it reads; they go when those do.
    identities: Vec<Weak<Identity>>,
}

/// A query that was not found, by what its plan will be kept.
struct Pending {
    key: Key,
    query: Arc<Query>,
    tables: Vec<TableVersion>,
    /// Held until the plan is kept, so that a table which changes meanwhile tells.
    identities: Vec<Arc<Identity>>,
}

/// What came of looking for a plan.
enum Found {
    /// One that was kept, for one execution.
    Plan(Arc<dyn ExecutionPlan>),
    /// None; its plan is to be kept where there is a pending query.
    Nothing(Option<Box<Pending>>),
}

/// How often plans were used again, and how often not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanStatistics {
    /// Queries that were given a kept plan.
    pub reused: u64,
    /// Queries that were planned, and whose plans were kept.
    pub made: u64,
    /// Queries that were planned, and whose plans are of no use to later ones.
    pub not_kept: u64,
    /// Plans that are kept now.
    pub kept: usize,
    /// Statements whose text was known ([`PlanCache::statement`]).
    pub known: u64,
}

/// The kept plans of one session.
pub struct PlanCache {
    plans: Mutex<LruCache<Key, Arc<Kept>>>,
    statements: Mutex<LruCache<TextKey, Arc<Statement>>>,
    /// The last one used last.
    surroundings: Mutex<VecDeque<Arc<Surroundings>>>,
    numbers: AtomicU64,
    reused: AtomicU64,
    made: AtomicU64,
    not_kept: AtomicU64,
    known: AtomicU64,
    this: Weak<Self>,
}

impl fmt::Debug for PlanCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanCache")
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}

impl PlanCache {
    /// An empty cache.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            plans: Mutex::new(LruCache::unbounded()),
            statements: Mutex::new(LruCache::unbounded()),
            surroundings: Mutex::default(),
            numbers: AtomicU64::new(0),
            reused: AtomicU64::new(0),
            made: AtomicU64::new(0),
            not_kept: AtomicU64::new(0),
            known: AtomicU64::new(0),
            this: Weak::clone(this),
        })
    }

    /// What has come of the session's queries so far.
    pub fn statistics(&self) -> PlanStatistics {
        PlanStatistics {
            reused: self.reused.load(Ordering::Relaxed),
            made: self.made.load(Ordering::Relaxed),
            not_kept: self.not_kept.load(Ordering::Relaxed),
            kept: self.plans.lock().len(),
            known: self.known.load(Ordering::Relaxed),
        }
    }

    /// The logical plan of one SQL statement, as [`SessionState::statement_to_plan`] makes it. A query that
    /// may have a kept plan is one node, which stands for it; if its text was asked before, and still means
    /// the same, it is not parsed: `parsed`, which reads the text, is not awaited.
    ///
    /// What a session was built with and does not show is taken to stay for as long as its name does: its
    /// planner of types.
    ///
    /// # Errors
    /// DataFusion's.
    pub async fn statement(
        &self,
        text: &str,
        state: &SessionState,
        parsed: impl Future<Output = Result<SqlStatement>>,
    ) -> Result<LogicalPlan> {
        let surroundings = self.surroundings(state).id;
        let key = (state.session_id().to_string(), surroundings, text.to_string());
        let statement = self.statements.lock().get(&key).cloned();
        if let Some(statement) = statement
            && let Some(tables) = statement.tables(state).await?
        {
            self.known.fetch_add(1, Ordering::Relaxed);
            return Ok(known(&statement, tables, Analysed::default()));
        }
        let mut parsed = parsed.await?;
        literals::exact_numbers(&mut parsed);
        let names = state.resolve_table_references(&parsed)?;
        let levels = levels_of_statement(&parsed)?;
        poll_for_levels(levels, self.planned(key, parsed, names, state)).await
    }

    /// The logical plan of a statement that was not asked before, which is remembered under `key`.
    async fn planned(
        &self,
        key: TextKey,
        parsed: SqlStatement,
        names: Vec<TableReference>,
        state: &SessionState,
    ) -> Result<LogicalPlan> {
        let plan = state.statement_to_plan(parsed).await?;
        let Some((query, tables)) = Query::of(&plan) else {
            return Ok(plan);
        };
        // The columns' final types are known to the rules, and so is whether plans are kept. What is wrong
        // with a query, planning says.
        let analyzer = state.analyzer();
        let analysed = analyzer.execute_and_check(plan.clone(), state.config_options(), |_, _| {});
        let Some(DeferredQuery {
            schema,
            analysed,
            levels,
            ..
        }) = analysed.ok().and_then(|plan| DeferredQuery::of(&plan).cloned())
        else {
            return Ok(plan);
        };
        let Some(statement) =
            Statement::new(Arc::new(query), &tables, (schema, levels), names, state).await?
        else {
            return Ok(plan);
        };
        let plan = known(&statement, tables, analysed);
        let gone = push(
            &mut self.statements.lock(),
            key,
            Arc::new(statement),
            GalateaConfig::of(state.config_options()).plan_cache.0,
        );
        drop(gone);
        Ok(plan)
    }

    /// The kept plan of a query, if it is still what planning would make.
    fn find(&self, asked: &Asked, state: &SessionState, session: &Session) -> Result<Found> {
        // What a registry of statistics says of tables may change at any time.
        if state.statistics_registry().is_some() {
            return Ok(Found::Nothing(None));
        }
        let (query, sources) = match asked {
            Asked::Known { query, tables } => (Arc::clone(query), tables.clone()),
            Asked::Plan(plan) => match Query::of(plan) {
                Some((query, tables)) => (Arc::new(query), tables),
                None => return Ok(Found::Nothing(None)),
            },
        };
        let Some((tables, identities)) = tables::versions(&sources) else {
            return Ok(Found::Nothing(None));
        };
        let key = (self.surroundings(state).id, query.hash());
        let kept = self.plans.lock().get(&key).cloned();
        let config = GalateaConfig::of(state.config_options());
        if let Some(kept) = kept
            && kept.query.same(&query)
            && tables::same(&kept.tables, &tables)
            && kept.grounds.hold(&kept.plan, session, &config)
        {
            let plan = for_execution(&kept, session, &config)?;
            self.reused.fetch_add(1, Ordering::Relaxed);
            metrics::planned(PlanOutcome::Reused);
            return Ok(Found::Plan(plan));
        }
        Ok(Found::Nothing(Some(Box::new(Pending {
            key,
            query,
            tables,
            identities,
        }))))
    }

    /// Keeps a copy of the plan that was made of a pending query, if it can be used again.
    fn keep(
        &self,
        pending: Option<Box<Pending>>,
        plan: &Arc<dyn ExecutionPlan>,
        state: &SessionState,
        session: &Session,
    ) {
        let config = GalateaConfig::of(state.config_options());
        let kept = pending.and_then(|pending| {
            let grounds = grounds(plan, session, &config)?;
            let copy = renew::is_renewable(plan).then(|| renew::kept(plan).ok())??;
            let Pending {
                key,
                query,
                tables,
                identities,
            } = *pending;
            let kept = Kept {
                query,
                tables,
                grounds,
                plan: copy,
                identities: identities.iter().map(Arc::downgrade).collect(),
            };
            Some((key, kept, identities))
        });
        let Some((key, kept, identities)) = kept else {
            self.not_kept.fetch_add(1, Ordering::Relaxed);
            metrics::planned(PlanOutcome::NotKept);
            return;
        };
        self.made.fetch_add(1, Ordering::Relaxed);
        metrics::planned(PlanOutcome::Made);
        // What is let go of may tell this cache that a table is gone: the lock is free by then.
        let gone = push(&mut self.plans.lock(), key, Arc::new(kept), config.plan_cache.0);
        drop(gone);
        let this: Weak<dyn Holder> = Weak::<Self>::clone(&self.this);
        identities.iter().for_each(|identity| identity.tell(&this));
        // A version that went meanwhile tells now.
        drop(identities);
    }

    /// The surroundings of a session as it is now.
    fn surroundings(&self, state: &SessionState) -> Arc<Surroundings> {
        let mut known = self.surroundings.lock();
        let found = known.iter().rposition(|surroundings| surroundings.hold(state));
        let now = found.and_then(|at| known.remove(at)).unwrap_or_else(|| {
            let id = self.numbers.fetch_add(1, Ordering::Relaxed);
            Arc::new(Surroundings::of(state, id))
        });
        if known.len() == SURROUNDINGS {
            known.pop_front();
        }
        known.push_back(Arc::clone(&now));
        now
    }
}

impl Holder for PlanCache {
    fn let_go(&self) {
        let mut plans = self.plans.lock();
        let gone = |kept: &Kept| {
            kept.identities
                .iter()
                .any(|identity| identity.strong_count() == 0)
        };
        let keys = plans.iter().filter(|(_, kept)| gone(kept)).map(|(key, _)| *key);
        let keys: Vec<Key> = keys.collect();
        let gone: Vec<Option<Arc<Kept>>> = keys.iter().map(|key| plans.pop(key)).collect();
        drop(plans);
        drop(gone);
    }
}

/// The node of a query that a text asks over tables.
fn known(statement: &Statement, tables: Vec<Arc<dyn TableSource>>, analysed: Analysed) -> LogicalPlan {
    let query = Arc::clone(&statement.query);
    let schema = Arc::clone(&statement.schema);
    let asked = Asked::Known { query, tables };
    let query = DeferredQuery {
        asked,
        schema,
        analysed,
        levels: statement.levels,
    };
    query.into_plan()
}

/// Adds an entry to a cache of so many; those that are let go of.
fn push<K: Hash + Eq, V>(cache: &mut LruCache<K, V>, key: K, value: V, most: u64) -> Vec<(K, V)> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut gone: Vec<(K, V)> = cache.push(key, value).into_iter().collect();
    while cache.len() > most {
        gone.extend(cache.pop_lru());
    }
    gone
}

/// What a plan was decided by; none where a later one may be decided otherwise.
fn grounds(plan: &Arc<dyn ExecutionPlan>, session: &Session, config: &GalateaConfig) -> Option<Grounds> {
    match plan.downcast_ref::<PlacementExec>() {
        Some(placement) => placement.grounds().cloned(),
        // Plans that are not offered to a device have no such node.
        None => (config.device == DeviceChoice::Cpu).then(|| Grounds::untimed(session, config)),
    }
}

/// A copy of a kept plan for one execution, with a report of its own.
fn for_execution(kept: &Kept, session: &Session, config: &GalateaConfig) -> Result<Arc<dyn ExecutionPlan>> {
    let report = PlanReport::default();
    if let Err(reason) = session.engine().usable_within(config, Duration::ZERO) {
        report.update(|report| *report = QueryReport::cpu(vec![reason.to_string()]));
    }
    let plan = renewed(&kept.plan, &report)?;
    report.update(|report| report.plan_reused = true);
    session.reports().record(report);
    Ok(plan)
}
