//! Work on rayon's threads, awaited by async code and cancelled when the future is dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Runs work on rayon's pool and waits for it without blocking the async runtime.
pub(crate) async fn on_pool<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    rayon::spawn(move || {
        // A panic would end the process on a rayon thread.
        let result =
            catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(panic.as_ref())));
        // The receiver is gone if the load was cancelled.
        drop(sender.send(result));
    });
    receiver.await.unwrap_or(Err(StoreError::Cancelled))
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> StoreError {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    StoreError::Internal(format!("panic while encoding: {}", text.unwrap_or_default()))
}
