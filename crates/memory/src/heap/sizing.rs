//! The size of a pool by the cost of a random walk over it: the analysis of Pham et al. 2022, §3.2 and §4.1.
//!
//! A walk is short while a share of the pages is free: a pool is large enough for its threads if
//! [`Pool::tas`] is small. The equations of other searches, and the theorems, are in `galatea_experiments`.
//!
//! A pool of `pages` pages has `free` free ones, and `threads` threads allocate one page each. TAS is the
//! mean number of steps of a thread, WAS the mean over warps of the slowest of 32 lanes. The walk checks
//! `width` pages per step: 1 for RW, the bits of a bitmap word for RW-BM.
//!
//! Sums are exact where the paper approximates (unlike the harmonic form, its logarithm diverges if every
//! free page is taken). Infinite series are summed until their terms vanish.

/// Lanes of a warp.
const LANES: i32 = 32;

/// A pool and the threads that allocate from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// Number of pages, the paper's T.
    pub pages: u64,
    /// Number of free pages before, A; at most `pages`.
    pub free: u64,
    /// Number of threads, each with one request, N; at most `free`.
    pub threads: u64,
}

impl Pool {
    /// The smallest pool of free pages in which a walk takes at most `steps` steps on average after `threads`
    /// pages have been allocated. `steps` is greater than 1. The pool consists of whole words of `width`
    /// pages, because walks draw a last word with fewer pages as often as the others.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "numbers of pages, not negative"
    )]
    pub fn for_walks(threads: u64, width: u32, steps: f64) -> Self {
        // A probe finds a page with probability 1 / steps if this share of the pages is free.
        let free = 1.0 - (1.0 - steps.recip()).powf(f64::from(width).recip());
        let pages = ((real(threads) / (1.0 - free)).ceil() as u64).next_multiple_of(width.into());
        Self {
            pages,
            free: pages,
            threads,
        }
    }

    /// Equations 2 (`width` 1, there with a logarithm) and 4: mean steps of a thread.
    ///
    /// With `width` 1 each term is T / (A - j), so the sum is (T/N) (H(A) - H(A-N)). For wider words it holds
    /// if there are few threads relative to words: the walk draws words, not pages, so it empties words with
    /// few free pages as fast as words with many, and the remaining free pages are in fewer words than if
    /// they were scattered (12 % more steps were measured at N = 3/4 A = 1.5 % of T).
    #[must_use]
    pub fn tas(&self, width: u32) -> f64 {
        let terms = (0..self.threads).map(|taken| 1.0 / self.chance(self.free - taken, width));
        terms.sum::<f64>() / real(self.threads).max(1.0)
    }

    /// Equations 3 (`width` 1) and 5: an upper bound of the mean steps of a warp's slowest lane, provided
    /// that pages stay scattered (see [`Pool::tas`]). Infinite if every free page is taken.
    #[must_use]
    pub fn was_bound(&self, width: u32) -> f64 {
        let left = self.free - self.threads;
        if left == 0 {
            return f64::INFINITY;
        }
        // The probability that a probe fails when the fewest pages are free.
        let miss = 1.0 - self.chance(left, width);
        let mut sum = 0.0;
        let mut still: f64 = 1.0; // miss^k
        loop {
            // 1 - (1 - x)^32, without cancellation for small x.
            let term = -(f64::from(LANES) * (-still).ln_1p()).exp_m1();
            if term < 1e-12 {
                return sum;
            }
            sum += term;
            still *= miss;
        }
    }

    /// Expected collisions of threads that all draw one page at first, N(N-1)/2T, times the probability A/T
    /// that the collision matters (§3.2.2).
    #[must_use]
    pub fn collisions(&self) -> f64 {
        let (t, a, n) = (real(self.pages), real(self.free), real(self.threads));
        n * (n - 1.0) / (2.0 * t) * (a / t)
    }

    /// The probability that a probe of `width` pages finds a free one, with `free` of them in the pool.
    fn chance(&self, free: u64, width: u32) -> f64 {
        let miss = 1.0 - real(free) / real(self.pages);
        if width == 1 {
            return real(free) / real(self.pages);
        }
        // 1 - miss^w without cancellation. Pools without free pages and full pools are special cases.
        if miss <= 0.0 {
            1.0
        } else {
            -(f64::from(width) * miss.ln()).exp_m1()
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "pages and threads stay far below 2^53")]
fn real(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::Pool;

    const PAGES: u64 = 1_000_000;
    const THREADS: u64 = 5000;

    fn pool(free: u64) -> Pool {
        Pool {
            pages: PAGES,
            free,
            threads: THREADS,
        }
    }

    /// Checks equality to the given digits.
    fn near(value: f64, expected: f64, digits: f64, what: &str) {
        assert!(
            (value - expected).abs() <= digits / 2.0 + 1e-9,
            "{what}: {value}, expected {expected}"
        );
    }

    #[test]
    fn equations_match_known_values() {
        // Free pages; TAS of RW; WAS of RW; TAS for 32 and 64 bits; WAS for 32 and 64 bits; each with its
        // last digit.
        let table = [
            (
                500_000,
                (2.01, 0.01),
                (6.4, 0.1),
                (1.0, 0.01),
                (1.0, 0.01),
                (1.0, 0.1),
                (1.0, 0.1),
            ),
            (
                100_000,
                (10.3, 0.1),
                (41.2, 0.1),
                (1.04, 0.01),
                (1.0, 0.01),
                (1.8, 0.1),
                (1.05, 0.01),
            ),
            (
                10_000,
                (138.6, 0.1),
                (810.0, 1.0),
                (4.84, 0.01),
                (2.70, 0.01),
                (25.8, 0.1),
                (13.2, 0.1),
            ),
            (
                7_000,
                (250.5, 0.1),
                (2028.0, 1.0),
                (8.33, 0.01),
                (4.43, 0.01),
                (63.9, 0.1),
                (32.2, 0.1),
            ),
        ];
        for (free, tas, was, tas32, tas64, was32, was64) in table {
            let pool = pool(free);
            let check = |value: f64, (expected, digit): (f64, f64), what: &str| {
                near(value, expected, digit, &format!("{what} with {free} free"));
            };
            check(pool.tas(1), tas, "TAS of RW");
            check(pool.was_bound(1), was, "WAS of RW");
            check(pool.tas(32), tas32, "TAS of RW-BM, 32 bits");
            check(pool.tas(64), tas64, "TAS of RW-BM, 64 bits");
            check(pool.was_bound(32), was32, "WAS of RW-BM, 32 bits");
            check(pool.was_bound(64), was64, "WAS of RW-BM, 64 bits");
        }
    }

    #[test]
    fn draining_the_pool_has_a_mean_but_no_bound() {
        let all = pool(THREADS);
        near(all.tas(1), 1818.9, 0.1, "TAS of RW");
        near(all.tas(32), 57.3, 0.1, "TAS of RW-BM, 32 bits");
        near(all.tas(64), 28.9, 0.1, "TAS of RW-BM, 64 bits");
        for width in [1, 32, 64] {
            assert!(all.was_bound(width).is_infinite());
        }
    }

    #[test]
    fn pools_are_sized_by_the_length_of_the_last_walk() {
        const TAKEN: u64 = 100_000;
        for (width, steps, pages) in [
            (1, 2.0, 200_000),
            (1, 10.0, 111_112),
            (32, 2.0, 102_208),
            (64, 1.1, 103_872),
        ] {
            let pool = Pool::for_walks(TAKEN, width, steps);
            assert_eq!((pool.pages, pool.free, pool.threads), (pages, pages, TAKEN));
            let next = |pages: u64| {
                let pool = Pool {
                    pages,
                    free: pages - TAKEN,
                    threads: 1,
                };
                pool.tas(width)
            };
            assert!(next(pages) <= steps, "width {width}: {} steps", next(pages));
            let fewer = next(pages - u64::from(width));
            assert!(fewer > steps, "width {width}: {fewer} steps in a smaller pool");
        }
    }

    #[test]
    fn few_threads_collide_rarely() {
        near(pool(PAGES).collisions(), 12.5, 0.1, "all pages free");
    }

    #[test]
    fn degenerate_pools_are_defined() {
        let one = Pool {
            pages: 1,
            free: 1,
            threads: 1,
        };
        assert_eq!((one.tas(1), one.tas(32)), (1.0, 1.0));
        let nobody = Pool {
            pages: 8,
            free: 4,
            threads: 0,
        };
        assert_eq!(nobody.tas(1), 0.0);
    }
}
