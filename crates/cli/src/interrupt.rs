//! Ctrl-C: the first press cancels the statement. The second ends the process ([`signals`](crate::signals)),
//! even while a query is being cancelled.

use std::any::Any;
use std::mem;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::errors::CliError;
use crate::signals::pressed_unless;

/// The stack size of a query's threads: planning and evaluation recurse with the depth of expressions. An
/// unused stack is address space only.
const STACK: usize = 64 << 20;

/// The time that a cancelled query has to end.
const PATIENCE: Duration = Duration::from_millis(200);

/// Runs `work` on a separate thread until it ends or Ctrl-C is pressed.
///
/// A cancelled query is dropped at the next point at which it yields. Operators that compute for a long time
/// between such points would block the thread that polls them, so other threads poll them: control returns at
/// once, and the rest of the query ends by itself or with the process.
pub(crate) async fn interruptible<T, F>(work: impl FnOnce() -> F + Send + 'static) -> Result<T, CliError>
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    interruptible_unless(|| false, work).await
}

/// Like [`interruptible`], but if `ends` returns true for a Ctrl-C, the work handles it and is still awaited.
pub(crate) async fn interruptible_unless<T, F>(
    ends: impl Fn() -> bool,
    work: impl FnOnce() -> F + Send + 'static,
) -> Result<T, CliError>
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let runtime = queries()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let (send, mut receive) = oneshot::channel();
    let poll = move || {
        let done = runtime.block_on(async {
            tokio::select! {
                done = work() => Some(done),
                // The work was cancelled, or its result is no longer awaited.
                _ = stopped => None,
            }
        });
        if let Some(done) = done {
            // After Ctrl-C the result is discarded.
            let _ = send.send(done);
        }
    };
    let spawned = thread::Builder::new()
        .name("query".to_string())
        .stack_size(STACK)
        .spawn(poll);
    let query = spawned.map_err(|cause| CliError::Other(format!("cannot start a thread: {cause}")))?;
    tokio::select! {
        done = &mut receive => match done {
            Ok(done) => Ok(done),
            Err(_) => Err(CliError::Panicked(query.join().err().map_or_else(String::new, |panic| message(&*panic)))),
        },
        () = pressed_unless(ends) => {
            let _ = stop.send(());
            // A query that yields is dropped in time.
            let _ = tokio::time::timeout(PATIENCE, &mut receive).await;
            abandon();
            Err(CliError::Cancelled)
        }
    }
}

/// The runtime of queries; `None` before the first query, and after one was cancelled.
static QUERIES: Mutex<Option<Runtime>> = Mutex::new(None);

/// The runtime of queries.
fn queries() -> Result<Handle, CliError> {
    let mut runtime = QUERIES.lock().unwrap_or_else(PoisonError::into_inner);
    if runtime.is_none() {
        let made = Builder::new_multi_thread()
            .thread_name("worker")
            .thread_stack_size(STACK)
            .enable_all()
            .build();
        *runtime = Some(made.map_err(|cause| CliError::Other(format!("cannot start threads: {cause}")))?);
    }
    match &*runtime {
        Some(runtime) => Ok(runtime.handle().clone()),
        None => unreachable!("made above"),
    }
}

/// Threads that wait for the threads of cancelled queries.
static ABANDONED: Mutex<Vec<thread::JoinHandle<()>>> = Mutex::new(Vec::new());

/// The time that the process waits at its end for threads of cancelled queries, because the driver aborts if
/// the process ends during a call.
const END: Duration = Duration::from_secs(1);

/// Abandons the threads of a cancelled query: they may run for a long time, and the next query needs threads.
fn abandon() {
    let runtime = QUERIES.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(runtime) = runtime else { return };
    let (send, receive) = mpsc::channel();
    let waiter = thread::Builder::new().name("abandoned".to_string());
    // Dropping the runtime waits for the tasks that its threads still run.
    match waiter.spawn(move || drop::<Result<Runtime, _>>(receive.recv())) {
        Ok(waiter) => {
            let _ = send.send(runtime);
            let mut abandoned = ABANDONED.lock().unwrap_or_else(PoisonError::into_inner);
            abandoned.push(waiter);
        }
        Err(_) => runtime.shutdown_background(),
    }
}

/// Waits for threads of cancelled queries before the process ends, up to a short limit.
pub(crate) fn settle() {
    let abandoned = mem::take(&mut *ABANDONED.lock().unwrap_or_else(PoisonError::into_inner));
    let begun = Instant::now();
    while begun.elapsed() < END && !abandoned.iter().all(thread::JoinHandle::is_finished) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// The process waits for a thread of a cancelled query that ends soon, and not for one that does not.
    #[test]
    fn exit_waits_briefly_for_abandoned_threads() {
        let run = |time: Duration| {
            let done = Arc::new(AtomicBool::new(false));
            let (runtime, flag) = (queries().expect("threads"), Arc::clone(&done));
            runtime.spawn_blocking(move || {
                thread::sleep(time);
                flag.store(true, Ordering::SeqCst);
            });
            abandon();
            settle();
            done.load(Ordering::SeqCst)
        };
        assert!(run(Duration::from_millis(50)));
        assert!(!run(Duration::from_secs(60)));
    }
}
