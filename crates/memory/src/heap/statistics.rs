//! Errors and counters of a heap's status.

use galatea_kernels::heap::STATUS_WORDS;

/// Misuse that kernels compiled with checks have detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeapFaults {
    /// A freed address is not a block of this heap.
    pub foreign: bool,
    /// A free page was freed, or a page was freed twice at the same time.
    pub double_free: bool,
    /// A request exceeded a page (or the pool, for consecutive pages).
    pub too_large: bool,
    /// The subject of the first misuse: a page; for a foreign pointer, its offset from the first page in
    /// bytes; for an excessive size, that size.
    pub first: Option<u64>,
}

impl HeapFaults {
    /// Whether any misuse was detected.
    #[must_use]
    pub fn any(&self) -> bool {
        self.foreign || self.double_free || self.too_large
    }
}

/// Counters of kernels that were compiled with them, and detected misuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeapStatistics {
    /// Misuse, if checks are enabled.
    pub faults: HeapFaults,
    /// Number of requests served.
    pub allocations: u64,
    /// Number of requests refused.
    pub failures: u64,
    /// Number of probes, summed over threads.
    pub steps: u64,
    /// Number of probes of the slowest thread, summed over warps.
    pub warp_steps: u64,
    /// Number of calls by warps.
    pub warps: u64,
    /// Number of atomics of allocations.
    pub atomics: u64,
    /// Number of claims of apparently free pages that another thread won.
    pub collisions: u64,
    /// Number of sweeps over the whole pool.
    pub sweeps: u64,
    /// Number of blocks freed.
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

    /// Adds the counters of other kernels, but not misuse.
    pub fn add_counters(&mut self, other: &Self) {
        self.allocations += other.allocations;
        self.failures += other.failures;
        self.steps += other.steps;
        self.warp_steps += other.warp_steps;
        self.warps += other.warps;
        self.atomics += other.atomics;
        self.collisions += other.collisions;
        self.sweeps += other.sweeps;
        self.frees += other.frees;
    }

    /// Per-thread average steps, the paper's TAS; `None` without requests.
    #[must_use]
    pub fn thread_average_steps(&self) -> Option<f64> {
        ratio(self.steps, self.allocations + self.failures)
    }

    /// Per-warp average steps of the slowest lane, the paper's WAS; `None` without requests.
    #[must_use]
    pub fn warp_average_steps(&self) -> Option<f64> {
        ratio(self.warp_steps, self.warps)
    }

    /// Atomics per request; `None` without requests.
    #[must_use]
    pub fn atomics_per_request(&self) -> Option<f64> {
        ratio(self.atomics, self.allocations + self.failures)
    }
}

#[expect(clippy::cast_precision_loss, reason = "an average")]
fn ratio(sum: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum as f64 / count as f64)
}
