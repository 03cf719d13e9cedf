//! Operations of the engine that a caller waits for, and that other threads may cancel.
//!
//! The caller may be a thread of any runtime, or of none, so it polls its future itself and parks. A query
//! that computes for a long time without a pause ends late, but its caller returns at once.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use adbc_core::error::{Error, Result};
use futures::future::{Either, select};
use galatea::ErrorKind;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinError, JoinHandle};

use crate::failure::{of_kind, panicked};
use crate::option::TIMEOUT;
use crate::threads::Threads;

/// The reason to stop an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Cancelled,
    /// The limit of time.
    Time(Duration),
    /// Nobody reads the result.
    Dropped,
}

impl Stop {
    fn error(self) -> Error {
        match self {
            Self::Cancelled | Self::Dropped => {
                of_kind(ErrorKind::Cancelled, "the query was cancelled on request")
            }
            Self::Time(limit) => of_kind(
                ErrorKind::Time,
                format!(
                    "the query took longer than {limit:?}\nhint: raise the option {TIMEOUT} of the statement"
                ),
            ),
        }
    }
}

/// A running operation.
#[derive(Debug)]
pub(crate) struct Operation {
    threads: Arc<Threads>,
    stop: watch::Sender<Option<Stop>>,
    tasks: Mutex<Vec<AbortHandle>>,
    /// The end of the time for the operation, and the time.
    end: Option<(Instant, Duration)>,
}

impl Operation {
    pub(crate) fn new(threads: &Arc<Threads>, limit: Option<Duration>) -> Arc<Self> {
        Arc::new(Self {
            threads: Arc::clone(threads),
            stop: watch::Sender::new(None),
            tasks: Mutex::default(),
            end: limit.and_then(|limit| Some((Instant::now().checked_add(limit)?, limit))),
        })
    }

    /// Starts a task of the operation.
    ///
    /// # Errors
    /// The process was forked.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<JoinHandle<T>> {
        let task = self.threads.handle()?.spawn(work);
        self.tasks.lock().push(task.abort_handle());
        if self.stop.borrow().is_some() {
            task.abort();
        }
        Ok(task)
    }

    /// Runs `work` on the threads of queries, and waits for it.
    ///
    /// # Errors
    /// Those of the work; cancellation; the limit of time.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let task = self.spawn(work)?;
        match self.wait(task)? {
            Ok(done) => done,
            Err(failed) => Err(self.failed(failed)),
        }
    }

    /// Waits for a future.
    ///
    /// # Errors
    /// Cancellation; the limit of time.
    pub(crate) fn wait<F: Future>(&self, future: F) -> Result<F::Output> {
        let mut stop = self.stop.subscribe();
        let stopped = pin!(stop.wait_for(Option::is_some));
        let future = pin!(future);
        // A stop wins over a result that has arrived, too.
        match block_on(select(stopped, future), self.end.map(|(end, _)| end)) {
            Some(Either::Right((done, _))) => Ok(done),
            Some(Either::Left((stop, _))) => {
                let stop = stop.ok().and_then(|stop| *stop);
                Err(stop.unwrap_or(Stop::Cancelled).error())
            }
            None => {
                let limit = self.end.map(|(_, limit)| limit).unwrap_or_default();
                self.end(Stop::Time(limit));
                Err(Stop::Time(limit).error())
            }
        }
    }

    /// The error of a task that has panicked or was stopped.
    pub(crate) fn failed(&self, error: JoinError) -> Error {
        match error.try_into_panic() {
            Ok(panic) => panicked(&*panic),
            Err(_) => self.stop.borrow().unwrap_or(Stop::Cancelled).error(),
        }
    }

    /// Cancels the operation.
    pub(crate) fn cancel(&self) {
        self.end(Stop::Cancelled);
    }

    fn end(&self, stop: Stop) {
        self.stop.send_if_modified(|present| {
            let is_first = present.is_none();
            present.get_or_insert(stop);
            is_first
        });
        for task in self.tasks.lock().drain(..) {
            task.abort();
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        self.end(Stop::Dropped);
    }
}

/// Wakes a parked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a future on this thread until it is ready; `None` if that takes until `end`.
fn block_on<F: Future>(future: F, end: Option<Instant>) -> Option<F::Output> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return Some(done);
        }
        match end.map(|end| end.saturating_duration_since(Instant::now())) {
            Some(Duration::ZERO) => return None,
            Some(left) => thread::park_timeout(left),
            None => thread::park(),
        }
    }
}
