//! Allocations of pages of the device heap, and the number of steps that theory predicts for random walks.

use std::fmt;

use galatea_kernels::heap::PageSearch;
use galatea_memory::HeapStatistics;
use galatea_memory::sizing::Pool;

/// The page allocations of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageAllocations {
    /// The page search of the kernels.
    pub search: PageSearch,
    /// Number of pages of the pool; of the largest pool, if several were used.
    pub pool: u64,
    /// Maximum number of pages of that pool that were allocated at the same time: its number of allocations,
    /// at most its number of pages.
    pub at_once: u64,
    /// The sums of the counters of all kernels.
    pub counts: HeapStatistics,
}

impl PageAllocations {
    /// The allocations of kernels from one pool. All of its pages were free before.
    pub(crate) fn new(search: PageSearch, pool: u64, counts: HeapStatistics) -> Self {
        Self {
            search,
            pool,
            at_once: counts.allocations.min(pool),
            counts,
        }
    }

    /// Adds the allocations of another run.
    pub(crate) fn add(&mut self, other: &Self) {
        if other.pool > self.pool {
            self.pool = other.pool;
            self.at_once = other.at_once;
        }
        self.counts.add_counters(&other.counts);
    }

    /// For searches that walk at random, the predicted mean number of steps of an allocation, and the bound
    /// of the mean number of steps of a warp's slowest lane: Pham et al. 2022, equations 2 to 5. `None` for
    /// other searches, and for collaborative walks, which the equations do not cover: all lanes walk, and a
    /// step fails if another warp has locked the word.
    #[must_use]
    pub fn predicted_steps(&self) -> Option<(f64, f64)> {
        let width = match self.search {
            PageSearch::Collaborative32 | PageSearch::Collaborative64 => return None,
            search => search.walk_width()?,
        };
        let pool = Pool {
            pages: self.pool,
            free: self.pool,
            threads: self.at_once,
        };
        Some((pool.tas(width), pool.was_bound(width)))
    }
}

impl fmt::Display for PageAllocations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        let average = |ratio: Option<f64>| ratio.unwrap_or_default();
        write!(
            f,
            "{} by {} from {} pages, {:.2} steps a page, {:.2} a warp",
            counts.allocations,
            self.search,
            self.pool,
            average(counts.thread_average_steps()),
            average(counts.warp_average_steps()),
        )?;
        if let Some((mean, bound)) = self.predicted_steps() {
            write!(f, " (predicted {mean:.2}, at most {bound:.2})")?;
        }
        write!(f, ", {:.2} atomics", average(counts.atomics_per_request()))?;
        for (count, what) in [
            (counts.collisions, "collisions"),
            (counts.sweeps, "sweeps"),
            (counts.failures, "refused"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}
