//! The execution of one statement: a task that sends batches to the connection as they are computed.
//!
//! The task waits while the connection has not sent the previous batch, so a result is never collected in
//! memory. It ends when the rows end, when the connection is gone, when the query is cancelled or exceeds a
//! limit, or when the server shuts down. Then it drops the plan's stream, which stops its operators and
//! pipelines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::physical_plan::ExecutionPlan;
use futures::{Stream, StreamExt, stream};
use metrics::{counter, histogram};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep_until;

use crate::failure::{ErrorKind, Failure, FailureKind};
use crate::metrics::{QUERIES, ROWS, SECONDS};
use crate::planning::{self, Context, Started, Work};
use crate::state::{Account, Permit, Shared, Ticket};

/// Batches between the plan and the connection.
const BATCHES: usize = 2;

/// The time in which a connection has to accept the error of a query that was stopped.
const LAST_ERROR: Duration = Duration::from_secs(5);

/// A query to run.
pub(crate) struct Job {
    pub(crate) ctx: Context,
    pub(crate) account: Arc<Account>,
    pub(crate) protocol: &'static str,
    pub(crate) work: Work,
    /// The statement.
    pub(crate) statement: Arc<str>,
    /// The limit of time.
    pub(crate) time: Option<Duration>,
    pub(crate) permit: Permit,
}

/// The rows of a running query. Dropping them stops the query.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) schema: SchemaRef,
    /// `None` for a statement that runs nothing.
    pub(crate) ticket: Option<Arc<Ticket>>,
    batches: mpsc::Receiver<Result<RecordBatch, Failure>>,
    /// Whether the task has sent everything. A task that panicked has not.
    complete: Arc<AtomicBool>,
}

impl Rows {
    /// The result of a statement that runs nothing.
    pub(crate) fn none() -> Self {
        Self {
            schema: Arc::new(Schema::empty()),
            ticket: None,
            batches: mpsc::channel(1).1,
            complete: Arc::new(AtomicBool::new(true)),
        }
    }

    /// The next batch.
    pub(crate) async fn next(&mut self) -> Option<Result<RecordBatch, Failure>> {
        match self.batches.recv().await {
            Some(batch) => Some(batch),
            // The error is returned once.
            None if self.complete.swap(true, Ordering::AcqRel) => None,
            None => Some(Err(panicked())),
        }
    }

    /// The batches as a stream.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<RecordBatch, Failure>> + Send + 'static {
        stream::unfold(self, |mut rows| async move {
            let batch = rows.next().await?;
            Some((batch, rows))
        })
    }

    /// Runs an update to its end. Returns the number of changed rows.
    pub(crate) async fn count(mut self) -> Result<u64, Failure> {
        let mut changed = 0;
        while let Some(batch) = self.next().await {
            changed += galatea::changed_rows(&[batch?]);
        }
        Ok(changed)
    }
}

fn panicked() -> Failure {
    Failure::new(
        FailureKind::Query(ErrorKind::Internal),
        "internal error: the query panicked; this is a bug, please report it",
    )
}

/// Starts a query on the runtime of queries. Returns when it is planned.
///
/// # Errors
/// Errors of planning and of statements without rows; the server shuts down.
pub(crate) async fn start(
    shared: &Arc<Shared>,
    job: Job,
    began: impl FnOnce(&Arc<Ticket>),
    ended: impl FnOnce(&Ticket) + Send + 'static,
) -> Result<Rows, Failure> {
    let ticket = shared.begin(&job.account, job.protocol, &job.statement)?;
    began(&ticket);
    let (planned, schema) = oneshot::channel();
    let (sender, batches) = mpsc::channel(BATCHES);
    let (state, own) = (Arc::clone(shared), Arc::clone(&ticket));
    let complete = Arc::new(AtomicBool::new(false));
    let completed = Arc::clone(&complete);
    shared.queries.spawn(async move {
        // Also if the task panics.
        let end = End {
            state: Arc::clone(&state),
            ticket: Arc::clone(&own),
            ended: Some(ended),
        };
        let logs = state.config.log_statements;
        let outcome = run(job, &own, planned, &sender, logs).await;
        completed.store(true, Ordering::Release);
        // When a client has received the end of its rows, the query does not run any more. The history is
        // written after that.
        drop(end);
        drop(sender);
        if let Some(statement) = &own.statement {
            let error = outcome.failure.as_ref();
            let label = error.map_or("done", |failure| failure.kind.label());
            let message = error.map(|failure| failure.message.as_str());
            state.history.add(statement, label, message, outcome.at);
        }
    });
    let schema = schema.await.unwrap_or_else(|_| Err(panicked()))?;
    Ok(Rows {
        schema,
        ticket: Some(ticket),
        batches,
        complete,
    })
}

/// Removes a query from the running ones.
struct End<F: FnOnce(&Ticket)> {
    state: Arc<Shared>,
    ticket: Arc<Ticket>,
    ended: Option<F>,
}

impl<F: FnOnce(&Ticket)> Drop for End<F> {
    fn drop(&mut self) {
        self.state.end(&self.ticket);
        if let Some(ended) = self.ended.take() {
            ended(&self.ticket);
        }
    }
}

/// The progress of a query, for its log line.
#[derive(Default)]
struct Progress {
    rows: u64,
    plan: Option<Arc<dyn ExecutionPlan>>,
    planned: Option<oneshot::Sender<Result<SchemaRef, Failure>>>,
}

/// The end of a query.
struct Outcome {
    failure: Option<Failure>,
    at: Instant,
}

async fn run(
    job: Job,
    ticket: &Ticket,
    planned: oneshot::Sender<Result<SchemaRef, Failure>>,
    batches: &mpsc::Sender<Result<RecordBatch, Failure>>,
    logs: bool,
) -> Outcome {
    let Job {
        ctx,
        account,
        protocol,
        work,
        statement,
        time: limit,
        permit,
    } = job;
    let begun = Instant::now();
    let mut progress = Progress {
        planned: Some(planned),
        ..Progress::default()
    };
    let rows = account.limits().rows;
    let time = async {
        match limit {
            Some(time) => sleep_until((begun + time).into()).await,
            None => std::future::pending().await,
        }
    };
    let outcome = tokio::select! {
        biased;
        failure = ticket.stopped() => Err(failure),
        () = batches.closed() => Err(Failure::new(FailureKind::Query(ErrorKind::Cancelled), "the client left")),
        () = time => Err(Failure::new(
            FailureKind::Query(ErrorKind::Time),
            format!("the query took longer than {:?}, the maximum (limits.time)", limit.unwrap_or_default()),
        )),
        outcome = send(ctx, work, rows, &mut progress, ticket, batches) => outcome,
    };
    let at = Instant::now();
    // Another query may begin before the client has read the last rows.
    drop(permit);
    log(
        &account,
        protocol,
        if logs { &statement } else { "" },
        &progress,
        at - begun,
        outcome.as_ref().err(),
    );
    let failure = outcome.err();
    if let Some(failure) = failure.clone() {
        match progress.planned.take() {
            // The client may be gone.
            Some(planned) => drop(planned.send(Err(failure))),
            None => drop(batches.send_timeout(Err(failure), LAST_ERROR).await),
        }
    }
    Outcome { failure, at }
}

/// Plans and executes, and sends all batches.
async fn send(
    ctx: Context,
    work: Work,
    limit: Option<u64>,
    progress: &mut Progress,
    ticket: &Ticket,
    batches: &mpsc::Sender<Result<RecordBatch, Failure>>,
) -> Result<(), Failure> {
    let started = planning::start(ctx, work).await?;
    let schema = match &started {
        Some(started) => started.rows.schema(),
        None => Arc::new(Schema::empty()),
    };
    if let Some(planned) = progress.planned.take() {
        let _ = planned.send(Ok(schema));
    }
    let Some(Started { plan, mut rows }) = started else {
        return Ok(());
    };
    if let Some(statement) = &ticket.statement {
        statement.runs(&plan);
    }
    progress.plan = Some(plan);
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let sent = progress.rows + batch.num_rows() as u64;
        if let Some(limit) = limit
            && sent > limit
        {
            return Err(Failure::new(
                FailureKind::Query(ErrorKind::Limit),
                format!(
                    "the result has more than {limit} rows, the maximum (limits.rows)\nhint: add LIMIT {limit}"
                ),
            ));
        }
        if batches.send(Ok(batch)).await.is_err() {
            return Err(Failure::new(
                FailureKind::Query(ErrorKind::Cancelled),
                "the client left",
            ));
        }
        progress.rows = sent;
        if let Some(statement) = &ticket.statement {
            statement.sent(sent);
        }
    }
    Ok(())
}

/// Writes one line per query, and its metrics.
fn log(
    account: &Account,
    protocol: &'static str,
    statement: &str,
    progress: &Progress,
    elapsed: Duration,
    failure: Option<&Failure>,
) {
    let seconds = elapsed.as_secs_f64();
    let outcome = failure.map_or("done", |failure| failure.kind.label());
    counter!(QUERIES, "protocol" => protocol, "outcome" => outcome).increment(1);
    counter!(ROWS, "protocol" => protocol).increment(progress.rows);
    histogram!(SECONDS, "protocol" => protocol).record(seconds);
    let device = progress
        .plan
        .as_ref()
        .and_then(galatea::query_report)
        .map_or_else(|| "none".to_string(), |report| report.device.to_string());
    tracing::info!(
        target: "galatea::query",
        user = account.name,
        protocol,
        outcome,
        seconds,
        rows = progress.rows,
        device,
        error = failure.map(|failure| failure.message.as_str()),
        statement = (!statement.is_empty()).then_some(statement),
        "query"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rows_of_a_task_that_panicked_end_with_an_error() {
        let (sender, batches) = mpsc::channel(1);
        let schema: SchemaRef = Arc::new(Schema::empty());
        sender
            .send(Ok(RecordBatch::new_empty(Arc::clone(&schema))))
            .await
            .unwrap();
        drop(sender);
        let mut rows = Rows {
            schema,
            ticket: None,
            batches,
            complete: Arc::default(),
        };
        assert!(rows.next().await.unwrap().is_ok());
        assert_eq!(
            rows.next().await.unwrap().unwrap_err().kind,
            FailureKind::Query(ErrorKind::Internal)
        );
        assert!(rows.next().await.is_none());
        assert!(Rows::none().next().await.is_none());
    }
}
