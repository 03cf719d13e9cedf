//! The threads of queries, and waiting for them: without the GIL, with signals and progress.
//!
//! All sessions share one pool. If Ctrl-C cancels a query, its tasks are dropped at the next point at which
//! they yield. A task that computes for a long time between such points keeps its thread. Then later queries
//! get a new pool, and the old one ends with the last query that uses it.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::physical_plan::ExecutionPlan;
use galatea::{QueryReports, ScanProgress};
use parking_lot::Mutex;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{JoinError, JoinHandle};

use crate::errors::{InternalError, OperationalError};

/// The stack size of a query's threads: planning and evaluation recurse with the depth of expressions. An
/// unused stack is address space only.
const STACK: usize = 64 << 20;

/// The interval at which a waiting thread handles signals.
pub(crate) const POLL: Duration = Duration::from_millis(50);

/// The time that a cancelled query has to end.
const PATIENCE: Duration = Duration::from_millis(200);

/// The time that a query runs before its progress is shown, and between two updates.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// The time that the interpreter waits at its end for threads of queries, because the driver aborts if the
/// process ends during a call.
const END: Duration = Duration::from_secs(1);

/// A pool of threads. It ends with the last query that uses it, without waiting for its threads.
#[derive(Debug)]
pub(crate) struct Threads(Option<Runtime>);

impl Threads {
    fn start() -> std::io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .thread_name("galatea")
            .thread_stack_size(STACK)
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// The pool's handle.
    pub(crate) fn handle(&self) -> &Handle {
        match &self.0 {
            Some(runtime) => runtime.handle(),
            None => unreachable!("the runtime is taken only when the pool is dropped"),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// The pool of later queries, and the process that started it.
static CURRENT: Mutex<Option<(u32, Arc<Threads>)>> = Mutex::new(None);

/// The pool of queries.
///
/// # Errors
/// [`OperationalError`] if no thread can be started, or in a process forked from one that had started them.
pub(crate) fn threads() -> PyResult<Arc<Threads>> {
    let mut current = CURRENT.lock();
    match &*current {
        Some((process, threads)) if *process == std::process::id() => Ok(Arc::clone(threads)),
        Some(_) => Err(OperationalError::new_err(
            "galatea was used before the process was forked, and its threads are not in the new process\n\
             hint: multiprocessing.set_start_method('spawn')",
        )),
        None => {
            let started = Threads::start();
            let started = started
                .map_err(|cause| OperationalError::new_err(format!("cannot start threads: {cause}")))?;
            let threads = Arc::new(started);
            *current = Some((std::process::id(), Arc::clone(&threads)));
            Ok(threads)
        }
    }
}

/// Gives later queries a new pool.
fn abandon(threads: &Arc<Threads>) {
    let mut current = CURRENT.lock();
    if matches!(&*current, Some((_, last)) if Arc::ptr_eq(last, threads)) {
        *current = None;
    }
}

/// Ends the threads of queries, and waits up to a second for them, then for compilers. Called at the end of
/// the interpreter.
#[pyfunction]
pub(crate) fn shut_down(py: Python<'_>) {
    let last = CURRENT.lock().take();
    let Some((process, threads)) = last else { return };
    if process != std::process::id() {
        // The threads belong to the parent process. Dropping the pool would wait for them.
        std::mem::forget(threads);
        return;
    }
    if let Ok(mut threads) = Arc::try_unwrap(threads)
        && let Some(runtime) = threads.0.take()
    {
        py.detach(|| runtime.shutdown_timeout(END));
    }
    py.detach(galatea_device::wait_before_exit);
}

/// The display of a query's progress: a Python object with the methods `draw(step, done, total, seconds)` and
/// `clear()`.
#[derive(Debug)]
pub(crate) struct Progress {
    display: Option<Py<PyAny>>,
    reports: Option<Arc<QueryReports>>,
    scans: Scans,
    begun: Instant,
    drawn: Option<Instant>,
}

/// The scans of the running plan, if the CPU runs all of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scans(Arc<Mutex<Option<ScanProgress>>>);

impl Scans {
    /// Shows the share of rows that the scans of `plan` have read, unless the plan reports its own progress.
    pub(crate) fn follow(&self, plan: &Arc<dyn ExecutionPlan>) {
        *self.0.lock() = ScanProgress::of(plan);
    }
}

impl Progress {
    /// The progress of the query that is planned next. `display` is the Python object, if it is shown.
    pub(crate) fn new(reports: Option<Arc<QueryReports>>, display: Option<Py<PyAny>>) -> Self {
        Self {
            display,
            reports,
            scans: Scans::default(),
            begun: Instant::now(),
            drawn: None,
        }
    }

    /// The place for the scans of the plan.
    pub(crate) fn scans(&self) -> Scans {
        self.scans.clone()
    }

    /// Whether Ctrl-C ends the query with its result so far instead of cancelling it.
    fn ends_early(&self) -> bool {
        self.reports.as_ref().is_some_and(|reports| reports.end_early())
    }

    fn draw(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(display) = &self.display else {
            return Ok(());
        };
        let due = self
            .drawn
            .map_or(self.begun + SHOWN_AFTER, |last| last + SHOWN_EVERY);
        if Instant::now() < due {
            return Ok(());
        }
        self.drawn = Some(Instant::now());
        let reported = self.reports.as_ref().and_then(|reports| reports.last());
        let progress = reported
            .and_then(|report| report.progress)
            .or_else(|| self.scans.0.lock().as_ref().map(ScanProgress::get));
        let step = progress.map_or_else(|| "running".to_string(), |progress| progress.step.to_string());
        let done = progress.map_or(0, |progress| progress.done);
        let total = progress.and_then(|progress| progress.total);
        let seconds = self.begun.elapsed().as_secs_f64();
        display.call_method1(py, "draw", (step, done, total, seconds))?;
        Ok(())
    }

    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        if let (Some(display), Some(_)) = (&self.display, self.drawn) {
            display.call_method0(py, "clear")?;
        }
        Ok(())
    }
}

/// Runs `work` on the threads of queries, and waits for it without the GIL. Ctrl-C, if the caller is the main
/// thread, cancels the work.
///
/// # Errors
/// The exception of a signal handler, such as `KeyboardInterrupt`; [`InternalError`] if the work panics.
pub(crate) fn wait<T, F>(py: Python<'_>, progress: &mut Progress, work: F) -> PyResult<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let threads = threads()?;
    let mut task = threads.handle().spawn(work);
    loop {
        let polled = py.detach(|| poll(&threads, &mut task, POLL));
        let outcome = match polled {
            Some(done) => done.map_err(failed_task),
            None => match py.check_signals().and_then(|()| progress.draw(py)) {
                Ok(()) => continue,
                Err(_) if progress.ends_early() => continue,
                Err(raised) => {
                    task.abort();
                    if py.detach(|| poll(&threads, &mut task, PATIENCE)).is_none() {
                        abandon(&threads);
                    }
                    Err(raised)
                }
            },
        };
        progress.clear(py)?;
        return outcome;
    }
}

/// Waits for the task, at most for `time`.
fn poll<T: Send>(
    threads: &Threads,
    task: &mut JoinHandle<T>,
    time: Duration,
) -> Option<Result<T, JoinError>> {
    let wait = async { tokio::time::timeout(time, task).await.ok() };
    threads.handle().block_on(wait)
}

/// The exception for a task that has panicked or was cancelled.
pub(crate) fn failed_task(error: JoinError) -> PyErr {
    match error.try_into_panic() {
        Ok(panic) => InternalError::new_err(format!(
            "internal error: {}\nhint: this is a bug; please report it with what is printed above",
            panic_message(&*panic)
        )),
        Err(_) => OperationalError::new_err("the query was cancelled"),
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_string())
}
