//! A cache of finished plans for repeated queries.
//!
//! Planning takes most of a small query's time, and occupies cores that other queries need. A session caches
//! the physical plans of its last queries, and reuses one if none of its inputs has changed:
//!
//! ```text
//! the query    logical plan before any rule, compared as a whole, with functions  query
//! its tables   stored: version; local files: list, times, sizes, inodes; no other tables
//! the session  settings, registered functions, rules                              session_fingerprint
//! placement    device, refusals, measured times, residence in device memory       placement::PlacementInputs
//! ```
//!
//! A repeated SQL string ([`PlanCache::statement`]) is not even parsed again (`statements`), and its plan can
//! be had without DataFusion's planning ([`PlanCache::plan`]).
//!
//! All inputs are compared for every query, and a plan with a changed one is replaced. Plans are not cached
//! if their query calls a function which is not immutable, reads other kinds of tables, or is recursive, or
//! if their operators cannot be copied (`renew`).
//!
//! A cached plan never runs: each use is a copy, so that executions share nothing. It does not keep tables
//! alive, either: a plan over a table of the store is dropped as soon as the table is dropped or gets another
//! version ([`galatea_store::StoredTable::version`]).

mod depth;
mod literals;
mod missing_files;
mod planner;
mod query;
mod renew;
mod session_fingerprint;
mod shared_result;
mod statements;
mod tables;
mod unplanned;

pub use depth::{MAX_LEVELS, levels_of_statement, with_stack_for};
use planner::{Analysed, Asked, DeferredQuery};
pub use planner::{DeferPlanning, ReusingPlanner};
use renew::renewed;

use crate::config::{DeviceChoice, GalateaConfig};
use crate::metrics::{self, PlanOutcome};
use crate::placement::{PlacementExec, PlacementInputs};
use crate::report::{PlanReport, QueryReport};
use crate::session::Session;
use crate::shared_results::SharedResult;
use datafusion::common::{Result, TableReference};
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::TableSource;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement as SqlStatement;
use galatea_base::stack::{for_levels, poll_for_levels};
use galatea_store::{Holder, Identity};
use lru::LruCache;
use parking_lot::{Mutex, RwLock};
use query::Query;
use session_fingerprint::SessionFingerprint;
use shared_result::{SameQuery, SharedResultExec};
use statements::{Statement, TextKey};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tables::TableVersion;

/// Maximum number of session fingerprints kept: a session that changes a setting back finds its plans again.
const FINGERPRINTS: usize = 8;

/// The key of a plan: the number of the session fingerprint and the query's hash. The query itself is
/// compared.
type Key = (u64, u64);

/// A plan that has been cached, and never runs.
#[derive(Debug)]
struct Kept {
    query: Arc<Query>,
    tables: Vec<TableVersion>,
    placement_inputs: PlacementInputs,
    plan: Arc<dyn ExecutionPlan>,
    /// Its result, for executions at the same time.
    result: Arc<SharedResult>,
    /// Versions of stored tables that it reads; they are dropped when those are.
    identities: Vec<Weak<Identity>>,
}

/// A query that was not found, with the key and the inputs of its future entry.
struct Pending {
    key: Key,
    query: Arc<Query>,
    tables: Vec<TableVersion>,
    /// Held until the plan is cached, so that a table which changes in the meantime is noticed.
    identities: Vec<Arc<Identity>>,
}

/// The part of a session that the lookup of a plan needs.
struct Lookup {
    /// The number of the session fingerprint; `None` if no plan may be reused, because the statistics of a
    /// registry may change at any time.
    fingerprint: Option<u64>,
    config: GalateaConfig,
}

/// The result of a cache lookup.
enum Found {
    /// A copy of a cached plan, for one execution.
    Plan(Arc<dyn ExecutionPlan>),
    /// No plan; the new plan is cached if a pending query is given.
    Nothing(Option<Box<Pending>>),
}

/// Statistics of the plan cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanStatistics {
    /// Queries that reused a cached plan.
    pub reused: u64,
    /// Queries that were planned, with a plan that was cached.
    pub made: u64,
    /// Queries that were planned, with a plan that cannot be reused.
    pub not_kept: u64,
    /// Number of plans in the cache.
    pub kept: usize,
    /// Statements with a cached string ([`PlanCache::statement`]).
    pub known: u64,
}

/// The cached plans of one session.
pub struct PlanCache {
    plans: Mutex<LruCache<Key, Arc<Kept>>>,
    statements: Mutex<LruCache<TextKey, Arc<Statement>>>,
    /// Session fingerprints, the most recently used one last.
    session_fingerprint: Mutex<VecDeque<Arc<SessionFingerprint>>>,
    /// The rules and planners of the session, if it has those of all sessions of the engine.
    usual_rules: OnceLock<SessionFingerprint>,
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
            session_fingerprint: Mutex::default(),
            usual_rules: OnceLock::new(),
            numbers: AtomicU64::new(0),
            reused: AtomicU64::new(0),
            made: AtomicU64::new(0),
            not_kept: AtomicU64::new(0),
            known: AtomicU64::new(0),
            this: Weak::clone(this),
        })
    }

    /// Statistics of the session's queries so far.
    pub fn statistics(&self) -> PlanStatistics {
        PlanStatistics {
            reused: self.reused.load(Ordering::Relaxed),
            made: self.made.load(Ordering::Relaxed),
            not_kept: self.not_kept.load(Ordering::Relaxed),
            kept: self.plans.lock().len(),
            known: self.known.load(Ordering::Relaxed),
        }
    }

    /// Declares that the session has exactly the rules and planners of `galatea::session`. Sessions of one
    /// engine share the results of equal queries while they keep these rules.
    pub fn declare_usual_rules(&self, state: &SessionState) {
        self.usual_rules.get_or_init(|| SessionFingerprint::of(state, 0));
    }

    /// The cached plan of one SQL query with a cached string; `None` if it has to be planned
    /// ([`Self::statement`]). The session's state is not copied, and no rule visits the query.
    ///
    /// # Errors
    /// DataFusion's.
    pub async fn plan(
        &self,
        text: &str,
        state: &RwLock<SessionState>,
        session: &Session,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (lookup, statement, catalogs) = {
            let state = state.read();
            let key = self.text_key(text, &state);
            let Some(statement) = self.statements.lock().get(&key).cloned() else {
                return Ok(None);
            };
            let lookup = Self::lookup(&state, key.1);
            (lookup, statement, Arc::clone(state.catalog_list()))
        };
        let Some(tables) = statement.tables(catalogs.as_ref()).await? else {
            return Ok(None);
        };
        let query = Arc::clone(&statement.query);
        let asked = Asked::Known { query, tables };
        match for_levels(statement.levels, || self.find(&asked, &lookup, session))? {
            Found::Plan(plan) => {
                self.known.fetch_add(1, Ordering::Relaxed);
                Ok(Some(plan))
            }
            Found::Nothing(_) => Ok(None),
        }
    }

    /// The logical plan of one SQL statement, as from [`SessionState::statement_to_plan`]. A query that may
    /// have a cached plan is represented by a single node. If its string is cached and still has the same
    /// meaning, it is not parsed: `parsed`, which parses the string, is not awaited.
    ///
    /// The type planner of a session is not observable; it is assumed to stay the same for one session name.
    ///
    /// # Errors
    /// DataFusion's.
    pub async fn statement(
        &self,
        text: &str,
        state: &SessionState,
        parsed: impl Future<Output = Result<SqlStatement>>,
    ) -> Result<LogicalPlan> {
        let key = self.text_key(text, state);
        let statement = self.statements.lock().get(&key).cloned();
        if let Some(statement) = statement
            && let Some(tables) = statement.tables(state.catalog_list().as_ref()).await?
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

    /// The logical plan of a statement without a cached string, which is cached under `key`.
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
        // The rules determine the columns' final types and whether plans are cached. Errors of a query are
        // left to planning.
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

    /// The key of an SQL string.
    fn text_key(&self, text: &str, state: &SessionState) -> TextKey {
        let fingerprint = self.session_fingerprint(state).id;
        (state.session_id().to_string(), fingerprint, text.to_string())
    }

    /// The input of [`Self::find`] for a session with that fingerprint.
    fn lookup(state: &SessionState, fingerprint: u64) -> Lookup {
        Lookup {
            fingerprint: state.statistics_registry().is_none().then_some(fingerprint),
            config: GalateaConfig::of(state.config_options()),
        }
    }

    /// The same for the planner, which has a copy of the session's state.
    fn lookup_in(&self, state: &SessionState) -> Lookup {
        Self::lookup(state, self.session_fingerprint(state).id)
    }

    /// The cached plan of a query, if planning would still produce the same.
    fn find(&self, asked: &Asked, lookup: &Lookup, session: &Session) -> Result<Found> {
        let Some(fingerprint) = lookup.fingerprint else {
            return Ok(Found::Nothing(None));
        };
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
        let key = (fingerprint, query.hash());
        let kept = self.plans.lock().get(&key).cloned();
        let config = &lookup.config;
        if let Some(kept) = kept
            && kept.query.same(&query)
            && tables::same(&kept.tables, &tables)
            && kept.placement_inputs.hold(&kept.plan, session, config)
        {
            let plan = for_execution(&kept, session, config)?;
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

    /// Caches a copy of the plan of a pending query, if it can be reused.
    fn keep(
        &self,
        pending: Option<Box<Pending>>,
        plan: &Arc<dyn ExecutionPlan>,
        (state, config): (&SessionState, &GalateaConfig),
        session: &Session,
    ) {
        let usual = self.usual_rules.get();
        let is_usual = usual.is_some_and(|usual| usual.has_rules_of(state));
        let kept = pending.and_then(|pending| {
            let placement_inputs = placement_inputs(plan, session, config)?;
            let copy = renew::is_renewable(plan).then(|| renew::kept(plan).ok())??;
            let Pending {
                key,
                query,
                tables,
                identities,
            } = *pending;
            let result = match is_usual {
                true => session.engine().shared_results().of(Box::new(SameQuery {
                    query: Arc::clone(&query),
                    tables: tables.clone(),
                    options: Arc::clone(state.config_options()),
                })),
                false => SharedResult::of_plan(),
            };
            let kept = Kept {
                query,
                tables,
                placement_inputs,
                plan: copy,
                result,
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
        // Dropping an entry may notify this cache that a table is gone, so the lock is released before.
        let gone = push(&mut self.plans.lock(), key, Arc::new(kept), config.plan_cache.0);
        drop(gone);
        let this: Weak<dyn Holder> = Weak::<Self>::clone(&self.this);
        identities.iter().for_each(|identity| identity.tell(&this));
        // A version that was dropped in the meantime notifies now.
        drop(identities);
    }

    /// The current fingerprint of a session.
    fn session_fingerprint(&self, state: &SessionState) -> Arc<SessionFingerprint> {
        let mut known = self.session_fingerprint.lock();
        let found = known
            .iter()
            .rposition(|session_fingerprint| session_fingerprint.hold(state));
        let now = found.and_then(|at| known.remove(at)).unwrap_or_else(|| {
            let id = self.numbers.fetch_add(1, Ordering::Relaxed);
            Arc::new(SessionFingerprint::of(state, id))
        });
        if known.len() == FINGERPRINTS {
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

/// The node of a query with a cached statement over these tables.
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

/// Adds an entry to a cache with at most `most` entries; returns the evicted ones.
fn push<K: Hash + Eq, V>(cache: &mut LruCache<K, V>, key: K, value: V, most: u64) -> Vec<(K, V)> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut gone: Vec<(K, V)> = cache.push(key, value).into_iter().collect();
    while cache.len() > most {
        gone.extend(cache.pop_lru());
    }
    gone
}

/// The placement inputs of a plan; `None` if a later decision may differ.
fn placement_inputs(
    plan: &Arc<dyn ExecutionPlan>,
    session: &Session,
    config: &GalateaConfig,
) -> Option<PlacementInputs> {
    match plan.downcast_ref::<PlacementExec>() {
        Some(placement) => placement.placement_inputs().cloned(),
        // Plans that are not offered to a device have no such node.
        None => (config.device == DeviceChoice::Cpu).then(|| PlacementInputs::untimed(session, config)),
    }
}

/// A copy of a cached plan for one execution, with a report of its own.
fn for_execution(kept: &Kept, session: &Session, config: &GalateaConfig) -> Result<Arc<dyn ExecutionPlan>> {
    let report = PlanReport::default();
    if let Err(reason) = session.engine().usable_within(config, Duration::ZERO) {
        report.update(|report| *report = QueryReport::cpu(vec![reason.to_string()]));
    }
    let mut plan = renewed(&kept.plan, &report)?;
    if config.shared_results.0 {
        plan = SharedResultExec::over(plan, &kept.result, &report, config);
    }
    report.update(|report| report.plan_reused = true);
    session.reports().record(report);
    Ok(plan)
}
