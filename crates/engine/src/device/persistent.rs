//! How many persistent operators run: kernels that live as long as their stream.

use std::sync::atomic::{AtomicU64, Ordering};

/// Persistent operators that run.
static RUNNING: AtomicU64 = AtomicU64::new(0);

/// Persistent operators of this process that run now.
#[must_use]
pub fn running() -> u64 {
    RUNNING.load(Ordering::Acquire)
}

/// Counts a run as long as it lives.
#[derive(Debug)]
pub(crate) struct Counted;

impl Counted {
    pub(crate) fn new() -> Self {
        RUNNING.fetch_add(1, Ordering::AcqRel);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::AcqRel);
    }
}
