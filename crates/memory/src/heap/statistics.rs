//! Errors and counters of a heap's status.

use galatea_kernels::heap::STATUS_WORDS;

/// Misuse seen by kernels that were compiled with checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeapFaults {
    /// An address was freed that is no block of this heap.
    pub foreign: bool,
    /// A free page was freed, or one twice at once.
    pub double_free: bool,
    /// More was asked for than a page has (or than the pool, for consecutive pages).
    pub too_large: bool,
    /// The subject of the first of these: a page; for a foreign pointer, its offset from the first page in
    /// bytes; for a size too large, that size.
    pub first: Option<u64>,
}

impl HeapFaults {
    /// Whether there was any.
    #[must_use]
    pub fn any(&self) -> bool {
        self.foreign || self.double_free || self.too_large
    }
}

/// Counters of kernels that were compiled with them, and faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeapStatistics {
    /// Misuse, with checks.
    pub faults: HeapFaults,
    /// Requests served.
    pub allocations: u64,
    /// Requests refused.
    pub failures: u64,
    /// Probes, summed over threads.
    pub steps: u64,
    /// Probes of the slowest thread, summed over warps.
    pub warp_steps: u64,
    /// Calls by warps.
    pub warps: u64,
    /// Atomics of allocations.
    pub atomics: u64,
    /// Claims of pages seen free that another thread got first.
    pub collisions: u64,
    /// Sweeps over the whole pool.
    pub sweeps: u64,
    /// Blocks freed.
    pub frees: u64,
}

impl HeapStatistics {
    pub(crate) fn from_words(words: &[u64; STATUS_WORDS]) -> Self {
        let errors = words[0];
        Self {
            faults: HeapFaults {
                foreign: errors & 1 != 0,
                double_free: errors & 2 != 0,
                too_large: errors & 4 != 0,
                first: words[1].checked_sub(1),
            },
            allocations: words[4],
            failures: words[5],
            steps: words[6],
            warp_steps: words[7],
            warps: words[8],
            atomics: words[9],
            collisions: words[10],
            sweeps: words[11],
            frees: words[12],
        }
    }

    /// Per-thread average steps, the paper's TAS; none without a request.
    #[must_use]
    pub fn thread_average_steps(&self) -> Option<f64> {
        ratio(self.steps, self.allocations + self.failures)
    }

    /// Per-warp average steps of the slowest lane, the paper's WAS; none without a request.
    #[must_use]
    pub fn warp_average_steps(&self) -> Option<f64> {
        ratio(self.warp_steps, self.warps)
    }

    /// Atomics per request; none without a request.
    #[must_use]
    pub fn atomics_per_request(&self) -> Option<f64> {
        ratio(self.atomics, self.allocations + self.failures)
    }
}

#[expect(clippy::cast_precision_loss, reason = "an average")]
fn ratio(sum: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum as f64 / count as f64)
}
