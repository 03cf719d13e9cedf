//! Work on rayon's threads, awaited by async code and cancelled when the future is dropped.
//!
//! What a thread that works in the background ([`work_in_background`]) asks for is done by a pool of its own,
//! whose threads have the lowest priority.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use galatea_device::lower_thread_priority;

use crate::error::{Result, StoreError};

/// Tells work that its result is no longer awaited.
#[derive(Debug, Default, Clone)]
pub(crate) struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// # Errors
    /// [`StoreError::Cancelled`], if so.
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

thread_local! {
    static IN_BACKGROUND: Cell<bool> = const { Cell::new(false) };
}

/// From now on the calling thread has the lowest priority, and what it loads is read and encoded so, too.
pub fn work_in_background() {
    lower_thread_priority();
    IN_BACKGROUND.set(true);
}

/// The threads of background work; `None` where the system gives none.
fn background() -> Option<&'static rayon::ThreadPool> {
    static POOL: OnceLock<Option<rayon::ThreadPool>> = OnceLock::new();
    let pool = || {
        let builder = rayon::ThreadPoolBuilder::new();
        let builder = builder.thread_name(|index| format!("galatea-background-{index}"));
        builder.start_handler(|_| work_in_background()).build().ok()
    };
    POOL.get_or_init(pool).as_ref()
}

/// Runs work on rayon's pool, or on that of background work, and waits for it without blocking the async
/// runtime.
pub(crate) async fn on_pool<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let work = move || {
        // A panic would end the process on a rayon thread.
        let result =
            catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(panic.as_ref())));
        // The receiver is gone if the load was cancelled.
        drop(sender.send(result));
    };
    match IN_BACKGROUND.get().then(background).flatten() {
        Some(pool) => pool.spawn(work),
        None => rayon::spawn(work),
    }
    receiver.await.unwrap_or(Err(StoreError::Cancelled))
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> StoreError {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    StoreError::Internal(format!("panic while encoding: {}", text.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_of_a_background_thread_is_done_in_the_background() {
        let is_background = || Ok(IN_BACKGROUND.get());
        assert!(!on_pool(is_background).await.expect("done"));
        let runtime = || {
            tokio::runtime::Builder::new_current_thread()
                .build()
                .expect("a runtime")
        };
        let behind = std::thread::spawn(move || {
            work_in_background();
            runtime().block_on(on_pool(is_background))
        });
        assert!(behind.join().expect("an answer").expect("done"));
        assert!(
            !on_pool(is_background).await.expect("done"),
            "threads of queries stay as they are"
        );
    }
}
