//! Random queries, compared with DataFusion's CPU operators.
//!
//! Everything is derived from the number of a query. [`ROUND`] consecutive queries have the same tables and
//! settings, and each has its own SQL string. So the number in a failure reproduces it, regardless of earlier
//! queries:
//!
//! ```text
//! number 37 ── round 2 ── six tables of every type, settings that force rare paths
//!          └── SQL string, by the family of the number
//! ```
//!
//! Concurrent sessions share the queries of a round, over one device and the same tables: in memory, or as
//! files in a format and location that follow from the number of the round. Each query runs twice, so that
//! its second run uses the cached plan. In a third of the rounds the tables then get other rows, and all
//! queries run once more. The CPU reads the rows from memory, because its scans of files could share a fault
//! with the device's.
//!
//! A query that fails on both is not a difference. Neither is one that falls back to the CPU, unless its
//! kernel does not compile. The order of rows is compared if the query determines it.

mod data;
mod files;
mod grammar;
mod repeated;
mod shapes;
mod tables;

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use futures::FutureExt;
use galatea::{EngineSettings, QueryReport};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;

use crate::Result;
use crate::compare::{RowOrder, compare};
use crate::harness::session::DeviceSession;
use crate::harness::{by_name, name_of};

use data::{Shape, batch};
use files::{PARTITIONS, Way};
use grammar::Grammar;
use shapes::Query;

pub use tables::Storage;

/// The number of queries with the same tables and settings.
pub const ROUND: u64 = 8;

/// Names of the tables, and the possible numbers of their rows.
const TABLES: [(&str, [usize; 3]); 6] = [
    ("t", [40, 257, 700]),
    ("u", [1, 33, 120]),
    ("w", [0, 8, 60]),
    ("x", [0, 5, 50]),
    ("y", [1, 20, 70]),
    ("z", [3, 9, 30]),
];

/// Settings that force rare paths: hash tables that grow or have collisions, small chunks, little memory.
const SETTINGS: &[&[(&str, &str)]] = &[
    &[],
    &[],
    &[],
    &[
        ("galatea.aggregate.strategy", "hash"),
        ("galatea.tuning.hash_slots", "2"),
    ],
    &[
        ("galatea.aggregate.strategy", "hash"),
        ("galatea.debug.collide_hashes", "true"),
    ],
    &[
        ("galatea.aggregate.strategy", "dense"),
        ("galatea.aggregate.replicas", "4"),
    ],
    &[
        ("galatea.aggregate.strategy", "copies"),
        ("galatea.aggregate.preaggregation", "runs"),
    ],
    &[
        ("galatea.memory.gpu_limit", "1 MiB"),
        ("galatea.tuning.block_threads", "32"),
    ],
    &[("galatea.memory.gpu_limit", "4 KiB")],
    &[
        ("galatea.memory.gpu_limit", "8 MiB"),
        ("galatea.cache.device", "false"),
    ],
    &[
        ("galatea.tuning.chunk_rows", "7"),
        ("galatea.cache.device", "false"),
    ],
    &[
        ("galatea.tuning.rows_per_thread", "1"),
        ("galatea.tuning.block_threads", "32"),
    ],
    &[("galatea.tuning.row_output", "counted")],
    &[
        ("galatea.tuning.row_output", "heap"),
        ("galatea.memory.gpu_limit", "3 MiB"),
    ],
    &[
        ("galatea.tuning.row_output", "heap"),
        ("galatea.tuning.page_search", "random-walk-bitmap-64"),
        ("galatea.memory.gpu_limit", "3 MiB"),
    ],
    &[
        ("galatea.tuning.row_output", "heap"),
        ("galatea.tuning.page_search", "collaborative-32"),
    ],
    &[("galatea.join.lookup_memory", "shared")],
    &[
        ("galatea.join.lookup_memory", "cache"),
        ("datafusion.execution.target_partitions", "1"),
    ],
    &[("galatea.tuning.build_rows", "0")],
    &[
        ("galatea.tuning.build_rows", "0"),
        ("galatea.tuning.chunk_rows", "64"),
    ],
    &[
        ("galatea.tuning.build_rows", "0"),
        ("galatea.join.partitions", "4"),
    ],
    &[
        ("galatea.tuning.build_rows", "0"),
        ("galatea.join.partitions", "256"),
        ("galatea.tuning.chunk_rows", "64"),
    ],
    &[("datafusion.execution.batch_size", "3")],
];

const SHAPES: &[Shape] = &[
    Shape::Ordinary,
    Shape::Ordinary,
    Shape::Ordinary,
    Shape::Skewed,
    Shape::AllEqual,
    Shape::AllNull,
];

/// A kind of query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Filters, values and groups of one table.
    OneTable,
    /// Joins of two to six tables, of every kind.
    Joins,
    /// IN, EXISTS and scalar subqueries.
    Subqueries,
    /// UNION, INTERSECT, EXCEPT, DISTINCT, and queries over the groups of others.
    Sets,
    /// Window functions.
    Windows,
    /// ORDER BY of all columns, with LIMIT and OFFSET.
    Ordered,
    /// Tables that a query reads more than once.
    Repeated,
}

impl Family {
    /// All, by name.
    pub const NAMES: [(&'static str, Self); 7] = [
        ("one-table", Self::OneTable),
        ("joins", Self::Joins),
        ("subqueries", Self::Subqueries),
        ("sets", Self::Sets),
        ("windows", Self::Windows),
        ("ordered", Self::Ordered),
        ("repeated", Self::Repeated),
    ];

    /// All of them.
    #[must_use]
    pub fn all() -> Vec<Self> {
        Self::NAMES.map(|(_, family)| family).to_vec()
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        name_of(&Self::NAMES, &self)
    }

    fn draw(self, grammar: &mut Grammar) -> Query {
        match self {
            Self::OneTable => grammar.one_table(),
            Self::Joins => grammar.join(),
            Self::Subqueries => grammar.subquery(),
            Self::Sets => grammar.combination(),
            Self::Windows => grammar.window(),
            Self::Ordered => grammar.limited(),
            Self::Repeated => grammar.repeated(),
        }
    }
}

impl std::str::FromStr for Family {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_name(&Self::NAMES, text)
    }
}

/// The queries to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The number of the first query.
    pub seed: u64,
    /// Number of queries.
    pub queries: u64,
    /// No round begins after this time; `None`: all queries are run.
    pub time: Option<Duration>,
    /// Number of sessions that share the queries of a round.
    pub sessions: usize,
    /// The kinds of queries, in turn.
    pub families: Vec<Family>,
    /// The storage of the tables.
    pub tables: Storage,
    /// A folder that keeps the files of tables; `None`: a temporary one.
    pub files: Option<PathBuf>,
    /// Further settings of the device's sessions besides the random ones, by full name.
    pub settings: Vec<(String, String)>,
}

/// A query with differing results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its number.
    pub number: u64,
    /// Its tables and the random settings.
    pub drawn: String,
    /// Its SQL string.
    pub sql: String,
    /// Whether the query returned an answer that used the device.
    pub on_device: bool,
    /// The difference.
    pub what: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "query {}, {}\n{}\n{}{}",
            self.number,
            self.drawn,
            self.sql,
            self.what,
            if self.on_device { ", on the device" } else { "" }
        )
    }
}

/// The outcome of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of compared queries.
    pub queries: u64,
    /// Number of those that used the device.
    pub on_device: u64,
    /// Number of those that failed on both.
    pub errors: u64,
    /// Those with differing results.
    pub failures: Vec<Failure>,
}

/// Runs of a query with the same SQL string.
#[derive(Debug, Clone, Copy)]
enum Runs {
    /// The first run, and one with its cached plan.
    FirstAndKept,
    /// One run after the tables got other rows.
    Changed,
}

/// The outcome of a query.
enum Ended {
    Same { on_device: bool },
    BothFail,
    Differs(Failure),
}

impl Plan {
    /// Runs its queries. `done` is called for each failure, and after every round with the number of queries
    /// so far.
    ///
    /// # Errors
    /// [`BenchError::NoDevice`](crate::BenchError::NoDevice); files that cannot be written. Errors of queries
    /// are compared instead.
    pub async fn run(&self, mut done: impl FnMut(&[Failure], u64)) -> Result<Outcome> {
        let session = DeviceSession::new(&self.settings)?;
        session.device()?;
        let cpu = galatea::session()
            .with_setting("galatea.device", "cpu")
            .with_setting("galatea.join.order", "written")
            .with_setting("galatea.overflow", "wrap")
            .build()?;
        let temporary = tempfile::tempdir().map_err(DataFusionError::IoError)?;
        let folder = self.files.as_deref().unwrap_or(temporary.path());
        let end = self.seed.saturating_add(self.queries);
        let mut outcome = Outcome::default();
        let mut first = self.seed;
        let begun = Instant::now();
        while first < end && self.time.is_none_or(|time| begun.elapsed() < time) {
            let round = Arc::new(Round::draw(first / ROUND, self.tables));
            let last = end.min((first / ROUND + 1) * ROUND);
            let ended = self.round(&round, folder, &session, &cpu, first..last).await?;
            outcome.queries += last - first;
            let mut failures = Vec::new();
            for ended in ended {
                match ended {
                    Ended::Same { on_device } => outcome.on_device += u64::from(on_device),
                    Ended::BothFail => outcome.errors += 1,
                    Ended::Differs(failure) => {
                        outcome.on_device += u64::from(failure.on_device);
                        failures.push(failure);
                    }
                }
            }
            done(&failures, outcome.queries);
            outcome.failures.extend(failures);
            first = last;
        }
        Ok(outcome)
    }

    async fn round(
        &self,
        round: &Arc<Round>,
        folder: &Path,
        session: &DeviceSession,
        cpu: &SessionContext,
        numbers: std::ops::Range<u64>,
    ) -> Result<Vec<Ended>> {
        // Settings of the engine are set before tables are encoded.
        let settings = round.settings.iter();
        session.set_engine(settings.map(|(name, value)| (*name, value.as_str())))?;
        let mut clients = Vec::new();
        for _ in 0..self.sessions.max(1) {
            let client = session.client();
            let settings = round.settings.iter();
            for (name, value) in settings.filter(|(name, _)| !EngineSettings::contains(name)) {
                client.sql(&format!("SET {name} = '{value}'")).await?;
            }
            clients.push(client);
        }
        let tables = round.tables.iter().map(|(name, _, rows)| (*name, rows));
        round.register(tables, folder, false, &clients[0], cpu).await?;
        let mut all = self
            .runs(round, &clients, cpu, &numbers, Runs::FirstAndKept)
            .await?;
        if let Some(changed) = &round.changed {
            let tables = round.tables.iter().zip(changed);
            let tables = tables.map(|((name, _, _), rows)| (*name, rows));
            round.register(tables, folder, true, &clients[0], cpu).await?;
            let ended = self.runs(round, &clients, cpu, &numbers, Runs::Changed).await?;
            // The queries are counted already.
            all.extend(
                ended
                    .into_iter()
                    .filter(|ended| matches!(ended, Ended::Differs(_))),
            );
        }
        Ok(all)
    }

    /// Runs the queries concurrently on all sessions.
    async fn runs(
        &self,
        round: &Arc<Round>,
        clients: &[SessionContext],
        cpu: &SessionContext,
        numbers: &std::ops::Range<u64>,
        runs: Runs,
    ) -> Result<Vec<Ended>> {
        let mut running = JoinSet::new();
        for (session, client) in clients.iter().cloned().enumerate() {
            let numbers = numbers.clone().skip(session).step_by(clients.len());
            let (plan, round, cpu) = (self.clone(), Arc::clone(round), cpu.clone());
            running.spawn(async move {
                let mut ended = Vec::new();
                for number in numbers {
                    ended.push(plan.query(number, runs, &round, &client, &cpu).await);
                }
                ended
            });
        }
        let mut all = Vec::new();
        while let Some(ended) = running.join_next().await {
            all.extend(ended.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?);
        }
        Ok(all)
    }

    async fn query(
        &self,
        number: u64,
        runs: Runs,
        round: &Round,
        device: &SessionContext,
        cpu: &SessionContext,
    ) -> Ended {
        let family = self.families[(number % self.families.len().max(1) as u64) as usize];
        let Query { sql, ordered } = family.draw(&mut Grammar::new(number));
        let order = if ordered { RowOrder::Fixed } else { RowOrder::Any };
        let expected = answer(cpu, &sql).await.map(|(rows, _)| rows);
        let names: &[&str] = match runs {
            Runs::FirstAndKept => &["first run", "kept plan"],
            Runs::Changed => &["changed tables"],
        };
        let mut ended = Ended::BothFail;
        for name in names {
            let actual = answer(device, &sql).await;
            let on_device = (actual.as_ref().ok())
                .and_then(|(_, report)| report.as_ref())
                .is_some_and(|report| report.placed > report.fell_back);
            ended = match (difference(&expected, &actual, order), &expected) {
                (Some(difference), _) => {
                    return Ended::Differs(Failure {
                        number,
                        drawn: round.to_string(),
                        sql,
                        // A failed query has no report, so it does not count among those that used the
                        // device.
                        on_device,
                        what: format!("{name}: {difference}"),
                    });
                }
                (None, Ok(_)) => Ended::Same { on_device },
                (None, Err(_)) => Ended::BothFail,
            };
        }
        ended
    }
}

/// The rows of a query, and its report.
type Answer = std::result::Result<(Vec<RecordBatch>, Option<QueryReport>), String>;

/// The difference between a query's rows on the device and on the CPU, if any.
fn difference(
    expected: &std::result::Result<Vec<RecordBatch>, String>,
    actual: &Answer,
    order: RowOrder,
) -> Option<String> {
    match (expected, actual) {
        (Ok(expected), Ok((actual, report))) => {
            if let Err(difference) = compare(expected, actual, order) {
                return Some(difference.to_string());
            }
            // A query may fall back to the CPU for many reasons, but not because a kernel does not compile.
            let mut reasons = report.iter().flat_map(|report| &report.reasons);
            reasons
                .find(|reason| reason.contains("does not compile"))
                .cloned()
        }
        (Err(_), Err(_)) => None,
        (Ok(_), Err(error)) => Some(format!("only the device fails: {error}")),
        (Err(error), Ok(_)) => Some(format!("only the CPU fails: {error}")),
    }
}

/// The rows of a query, and its report. A panic is returned as an error.
async fn answer(ctx: &SessionContext, sql: &str) -> Answer {
    let run = async {
        let plan = ctx.sql(sql).await?.create_physical_plan().await?;
        let batches = collect(Arc::clone(&plan), ctx.task_ctx()).await?;
        Ok::<_, DataFusionError>((batches, galatea::query_report(&plan)))
    };
    match AssertUnwindSafe(run).catch_unwind().await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(panic) => Err(format!("panic: {}", message(&*panic))),
    }
}

/// The message of a panic.
fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_string())
}

/// The common tables and settings of a round's queries.
struct Round {
    number: u64,
    way: Option<Way>,
    settings: Vec<(&'static str, String)>,
    tables: Vec<(&'static str, Shape, RecordBatch)>,
    /// Other rows of the tables, which replace the first ones after all queries have run.
    changed: Option<Vec<RecordBatch>>,
}

impl Round {
    fn draw(number: u64, storage: Storage) -> Self {
        let mut rng = SmallRng::seed_from_u64(number);
        let drawn = *SETTINGS.choose(&mut rng).expect("not empty");
        let chunk_rows = rng.random_range(30..900).to_string();
        let partitions = PARTITIONS[(number / 7 % PARTITIONS.len() as u64) as usize];
        // The drawn settings follow these and take precedence.
        let mut settings = vec![
            // Values include the extremes of their types. An error would end a query before its other columns
            // are compared.
            ("galatea.overflow", "wrap".to_string()),
            ("galatea.tuning.chunk_rows", chunk_rows),
            ("datafusion.execution.target_partitions", partitions.to_string()),
        ];
        settings.extend(drawn.iter().map(|(name, value)| (*name, (*value).to_string())));
        let tables: Vec<_> = (TABLES.iter())
            .map(|(name, sizes)| {
                let rows = *sizes.choose(&mut rng).expect("not empty");
                let shape = *SHAPES.choose(&mut rng).expect("not empty");
                (*name, shape, batch(rows, rng.random(), shape))
            })
            .collect();
        let mut change = |(_, shape, rows): &(&str, Shape, RecordBatch)| {
            let rows = match rng.random_range(0..2) {
                0 => rows.num_rows() / 2,
                _ => rows.num_rows() + 1,
            };
            batch(rows, rng.random(), *shape)
        };
        let changed = number
            .is_multiple_of(3)
            .then(|| tables.iter().map(&mut change).collect());
        Self {
            number,
            way: storage.way(number),
            settings,
            tables,
            changed,
        }
    }

    /// Registers these tables in the sessions, in place of those with the same names. Files that are already
    /// `registered` are only rewritten.
    async fn register(
        &self,
        tables: impl Iterator<Item = (&str, &RecordBatch)>,
        folder: &Path,
        registered: bool,
        device: &SessionContext,
        cpu: &SessionContext,
    ) -> Result<()> {
        let folder = folder.join(format!("round-{}", self.number));
        let files = self.way.map(|way| (folder.as_path(), way));
        for table in tables {
            tables::replace(table, files, registered, device, cpu).await?;
        }
        Ok(())
    }
}

impl std::fmt::Display for Round {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, shape, rows) in &self.tables {
            write!(f, "{name}: {} rows, {shape:?}; ", rows.num_rows())?;
        }
        write!(f, "{}; {:?}", tables::describe(self.way), self.settings)
    }
}
