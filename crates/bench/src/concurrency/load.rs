//! Clients in a closed loop: each sends its next query after the answer to the last one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use galatea::QueryReport;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::harness::session::DeviceSession;
use crate::workload::Query;
use crate::{BenchError, Result};

/// The stack size of a client's thread: planning recurses with the depth of the query.
pub(super) const STACK: usize = 16 << 20;

/// The time that clients have for running queries after their time is over.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);

/// A query, and the result of its first run.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) query: Query,
    pub(super) result: Vec<RecordBatch>,
}

/// The queries that a client sends, by number.
#[derive(Debug, Clone)]
pub(super) enum Script {
    /// These queries, repeatedly.
    InTurn(Vec<usize>),
    /// All queries below this number, in another order in each round.
    Shuffled(usize, Box<SmallRng>),
}

impl Script {
    pub(super) fn shuffled(queries: usize, seed: u64) -> Self {
        Self::Shuffled(queries, Box::new(SmallRng::seed_from_u64(seed)))
    }

    /// Whether a round may end early. Queries in turn are compared, so each of them must run.
    fn may_stop_midway(&self) -> bool {
        matches!(self, Self::Shuffled(..))
    }

    /// The next queries.
    pub(super) fn round(&mut self) -> Vec<usize> {
        match self {
            Self::InTurn(queries) => queries.clone(),
            Self::Shuffled(queries, random) => {
                let mut order: Vec<usize> = (0..*queries).collect();
                order.shuffle(random);
                order
            }
        }
    }
}

/// The outcome of queries.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    /// The number and the latency in seconds of each completed query.
    pub(super) latencies: Vec<(usize, f64)>,
    /// Number of failed queries.
    pub(super) failures: u64,
    /// Number of results that differ from the first run's.
    pub(super) wrong: u64,
    /// Number of queries with a part that was placed on the device but ran on the CPU.
    pub(super) fell_back: u64,
    /// Bytes that crossed the link, in both directions.
    pub(super) link_bytes: u64,
    /// The total time from the first to the last work of each pipeline on the device, in seconds.
    pub(super) device_seconds: f64,
    /// Distinct problems.
    pub(super) problems: BTreeSet<String>,
    /// Seconds from the start to the last answer.
    pub(super) seconds: f64,
}

impl Tally {
    /// The tally of several concurrent clients.
    pub(super) fn of_all(tallies: &[Self]) -> Self {
        let mut all = Self::default();
        for tally in tallies {
            all.latencies.extend_from_slice(&tally.latencies);
            all.failures += tally.failures;
            all.wrong += tally.wrong;
            all.fell_back += tally.fell_back;
            all.link_bytes += tally.link_bytes;
            all.device_seconds += tally.device_seconds;
            all.problems.extend(tally.problems.iter().cloned());
            all.seconds = all.seconds.max(tally.seconds);
        }
        all
    }

    /// Mean latency of a query, or of all; `None` if none was completed.
    pub(super) fn mean(&self, query: Option<usize>) -> Option<f64> {
        let of = self.latencies.iter();
        let of: Vec<f64> = of
            .filter(|(number, _)| query.is_none_or(|query| query == *number))
            .map(|(_, seconds)| *seconds)
            .collect();
        (!of.is_empty()).then(|| of.iter().sum::<f64>() / of.len() as f64)
    }

    /// The latency that `percent` of the queries do not exceed, in seconds.
    pub(super) fn percentile(&self, percent: f64) -> Option<f64> {
        let mut sorted: Vec<f64> = self.latencies.iter().map(|(_, seconds)| *seconds).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied()
    }

    /// Number of completed queries per second.
    pub(super) fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// The longest latency, in seconds.
    pub(super) fn longest(&self) -> Option<f64> {
        let latencies = self.latencies.iter().map(|(_, seconds)| *seconds);
        latencies.max_by(f64::total_cmp)
    }

    /// Runs one query that arrived at `start`, and records its outcome.
    pub(super) async fn run(&mut self, ctx: &SessionContext, number: usize, known: &Known, start: Instant) {
        let outcome = run(ctx, &known.query.sql).await;
        let latency = start.elapsed().as_secs_f64();
        let name = &known.query.name;
        match outcome {
            Ok((batches, report)) => {
                self.latencies.push((number, latency));
                if let Some(report) = report {
                    self.link_bytes += report.link_bytes;
                    self.device_seconds += report.phases.kernel.as_secs_f64();
                    if report.fell_back > 0 {
                        self.fell_back += 1;
                        let reasons = report.reasons.join("; ");
                        self.problems.insert(format!("query {name} fell back: {reasons}"));
                    }
                }
                // Most results are bitwise equal, which is checked quickly.
                if batches != known.result
                    && let Err(difference) = known.query.compare(&known.result, &batches)
                {
                    self.wrong += 1;
                    self.problems
                        .insert(format!("query {name} is wrong: {difference}"));
                }
            }
            Err(error) => {
                self.failures += 1;
                self.problems.insert(format!("query {name} failed: {error}"));
            }
        }
    }
}

/// A query's result and the engine's report.
async fn run(ctx: &SessionContext, sql: &str) -> Result<(Vec<RecordBatch>, Option<QueryReport>)> {
    let plan = galatea::physical_plan(ctx, sql).await?;
    let batches = collect(Arc::clone(&plan), ctx.task_ctx()).await?;
    // The plan's own report: the session's last report may belong to another client.
    Ok((batches, galatea::query_report(&plan)))
}

/// A client with a session of its own.
pub(super) struct Client {
    ctx: SessionContext,
    known: Arc<[Known]>,
    script: Script,
}

impl Client {
    /// A client that sends queries of a session according to a script.
    pub(super) fn new(session: &DeviceSession, known: &Arc<[Known]>, script: &Script) -> Self {
        Self {
            ctx: session.client(),
            known: Arc::clone(known),
            script: script.clone(),
        }
    }
}

/// Runs clients for `time`, each on a thread of its own, and waits for all. Returns one tally per client.
///
/// # Errors
/// [`BenchError::NoAnswer`] if a client does not return.
pub(super) async fn drive(clients: Vec<Client>, time: Duration) -> Result<Vec<Tally>> {
    let start = Instant::now();
    let until = start + time;
    let count = clients.len();
    let mut answers = Vec::new();
    for client in clients {
        let (send, receive) = oneshot::channel();
        let Client {
            ctx,
            known,
            mut script,
        } = client;
        let runtime = Handle::current();
        let client = move || {
            let mut tally = Tally::default();
            runtime.block_on(async {
                // At least one query runs, even if the start takes long.
                'time: loop {
                    for number in script.round() {
                        tally.run(&ctx, number, &known[number], Instant::now()).await;
                        if script.may_stop_midway() && Instant::now() >= until {
                            break 'time;
                        }
                    }
                    if Instant::now() >= until {
                        break;
                    }
                }
            });
            tally.seconds = start.elapsed().as_secs_f64();
            // The receiver may have been cancelled.
            let _ = send.send(tally);
        };
        let thread = thread::Builder::new()
            .name("client".to_string())
            .stack_size(STACK);
        thread.spawn(client).map_err(BenchError::Thread)?;
        answers.push(receive);
    }
    let mut tallies = Vec::new();
    for answer in answers {
        let left = until.saturating_duration_since(Instant::now()) + PATIENCE;
        let tally = tokio::time::timeout(left, answer).await;
        let gone = || BenchError::NoAnswer {
            clients: count,
            seconds: PATIENCE.as_secs(),
        };
        // A client that panicked sends no tally either. Its message has been printed.
        tallies.push(tally.map_err(|_| gone())?.map_err(|_| gone())?);
    }
    Ok(tallies)
}
