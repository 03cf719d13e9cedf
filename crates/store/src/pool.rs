//! Work on rayon's threads, awaited by async code and cancelled when the future is dropped.
//!
//! Loads that a low-priority thread starts are read and encoded by low-priority threads, too, until a query
//! waits for them: the units that have not begun then go to rayon's pool.

use galatea_base::panic::message;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use galatea_device::{has_low_priority, low_priority_pool};

use crate::error::{Result, StoreError};

/// A flag that cancels work, because its result is no longer awaited.
#[derive(Debug, Default, Clone)]
pub(crate) struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// # Errors
    /// [`StoreError::Cancelled`] if the work is cancelled.
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) {
            Err(StoreError::Cancelled)
        } else {
            Ok(())
        }
    }

    /// Cancels when dropped.
    pub(crate) fn on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }
}

/// See [`Cancellation::on_drop`].
#[derive(Debug)]
pub(crate) struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Runs work on rayon's pool, or on the low-priority pool, and waits for it without blocking the async
/// runtime.
pub(crate) async fn on_pool<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    on_pool_of(|| false, work).await
}

/// Like [`on_pool`]. Work of low priority moves to rayon's pool if `is_awaited` when it begins.
pub(crate) async fn on_pool_of<T: Send + 'static>(
    is_awaited: impl Fn() -> bool + Send + 'static,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let work = move || {
        // A panic on a rayon thread would end the process.
        let result =
            catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(panic.as_ref())));
        // The receiver is dropped if the load was cancelled.
        drop(sender.send(result));
    };
    match has_low_priority().then(low_priority_pool).flatten() {
        None => rayon::spawn(work),
        Some(pool) => {
            let (mover, moved) = tokio::sync::oneshot::channel();
            pool.spawn(move || {
                if is_awaited() {
                    drop(mover.send(work));
                } else {
                    drop(mover);
                    work();
                }
            });
            // A thread of a pool would spawn on its own pool.
            if let Ok(work) = moved.await {
                rayon::spawn(work);
            }
        }
    }
    receiver.await.unwrap_or(Err(StoreError::Cancelled))
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> StoreError {
    let message = message(panic).unwrap_or_default();
    StoreError::Internal(format!("panic while encoding: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn low_priority_work_runs_on_the_low_priority_pool() {
        let is_background = || Ok(has_low_priority());
        assert!(!on_pool(is_background).await.expect("done"));
        assert!(of_low_priority(on_pool(is_background)).expect("done"));
        assert!(
            !on_pool(is_background).await.expect("done"),
            "threads of queries stay as they are"
        );
    }

    #[test]
    fn awaited_work_of_low_priority_runs_on_the_pool_of_queries() {
        for awaited in [false, true] {
            let work = on_pool_of(move || awaited, || Ok(has_low_priority()));
            assert_eq!(of_low_priority(work).expect("done"), !awaited);
        }
    }

    /// The output of a future that a thread of low priority polls.
    fn of_low_priority<T: Send>(future: impl Future<Output = T> + Send) -> T {
        std::thread::scope(|scope| {
            let low = scope.spawn(|| {
                galatea_device::lower_thread_priority();
                let runtime = tokio::runtime::Builder::new_current_thread().build();
                runtime.expect("a runtime").block_on(future)
            });
            low.join().expect("an answer")
        })
    }
}
