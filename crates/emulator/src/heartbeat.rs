//! The counter by which an OS thread that executes blocks signals progress to [`crate::watchdog`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The watchdog's view of an OS thread. That thread writes it.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat {
    beats: AtomicU64,
    impatient: AtomicBool,
}

impl Heartbeat {
    /// Counts a scheduling decision.
    #[inline(always)]
    pub(crate) fn beat(&self) {
        // Only one thread writes, so no atomic addition is needed.
        self.beats.store(
            self.beats.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
    }

    /// Resets the suspicion when a block starts.
    pub(crate) fn begin_block(&self) {
        self.impatient.store(false, Ordering::Relaxed);
    }

    /// Number of scheduling decisions so far.
    pub(crate) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Whether the running block has been interrupted before.
    pub(crate) fn is_impatient(&self) -> bool {
        self.impatient.load(Ordering::Relaxed)
    }

    /// Records that the running block was interrupted.
    pub(crate) fn interrupted(&self) {
        self.impatient.store(true, Ordering::Relaxed);
    }
}
