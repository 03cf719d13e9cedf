//! Counts the running persistent operators: kernels that live as long as their stream.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of running persistent operators.
static RUNNING: AtomicU64 = AtomicU64::new(0);

/// Number of persistent operators that run in this process now.
#[must_use]
pub fn running() -> u64 {
    RUNNING.load(Ordering::Acquire)
}

/// Counts a run until it is dropped.
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
