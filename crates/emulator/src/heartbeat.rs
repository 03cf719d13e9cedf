//! The sign by which an OS thread that executes blocks shows progress to [`crate::watchdog`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The watchdog's view of an OS thread; written by that thread.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat {
    beats: AtomicU64,
    impatient: AtomicBool,
}

impl Heartbeat {
    /// A scheduling decision was made.
    #[inline(always)]
    pub(crate) fn beat(&self) {
        // One writer: no atomic addition needed.
        self.beats.store(
            self.beats.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
    }

    /// A block starts: no suspicion against it.
    pub(crate) fn begin_block(&self) {
        self.impatient.store(false, Ordering::Relaxed);
    }

    /// Scheduling decisions so far.
    pub(crate) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Whether the running block was interrupted before.
    pub(crate) fn is_impatient(&self) -> bool {
        self.impatient.load(Ordering::Relaxed)
    }

    /// The running block was interrupted.
    pub(crate) fn interrupted(&self) {
        self.impatient.store(true, Ordering::Relaxed);
    }
}
