//! Locks of columns that are loaded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use galatea_device::has_low_priority;

/// The lock of a column. It is held while the column is loaded.
#[derive(Debug, Default)]
pub(crate) struct Loader {
    lock: Arc<tokio::sync::Mutex<()>>,
    /// Number of loads by threads of usual priority that wait for the lock.
    waiting: AtomicUsize,
}

/// Counts a load among the waiting ones until it is dropped.
struct Waits<'l>(&'l Loader);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Loader {
    /// Waits until no other load has the lock, and takes it.
    pub(crate) async fn lock(&self) -> tokio::sync::OwnedMutexGuard<()> {
        let _waits = (!has_low_priority()).then(|| {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            Waits(self)
        });
        Arc::clone(&self.lock).lock_owned().await
    }

    /// Whether a load by a thread of usual priority waits.
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn loads_of_usual_priority_await_the_lock() {
        let loader = Loader::default();
        let lock = loader.lock().await;
        assert!(!loader.is_awaited(), "the owner of the lock does not wait");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                galatea_device::lower_thread_priority();
                let mut low = Box::pin(loader.lock());
                assert!((&mut low).now_or_never().is_none());
                assert!(!loader.is_awaited());
            });
        });
        let mut waits = Box::pin(loader.lock());
        assert!((&mut waits).now_or_never().is_none());
        assert!(loader.is_awaited());
        let cancelled = Box::pin(loader.lock());
        drop(cancelled);
        drop(lock);
        let _lock = waits.await;
        assert!(!loader.is_awaited());
    }
}
