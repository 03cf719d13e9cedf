//! Expected numbers of steps in a queue, and the limits that the paper proves, for comparison with random
//! walks. See Pham et al. 2022, §3.2 and §4.1.
//!
//! [`galatea_memory::sizing`] has the equations of the walks, and defines TAS and WAS. `galatea bench
//! allocator` measures both, and plots them as figure 4.

use galatea_memory::sizing::Pool;

/// Lanes of a warp.
const LANES: i32 = 32;

/// Equation 1: steps in a queue, in which each thread waits for all threads before it.
#[must_use]
pub fn queue_tas(pool: &Pool) -> f64 {
    (real(pool.threads) + 1.0) / 2.0
}

/// Equation 1: steps of the slowest lane of a warp in a queue. The printed polynomial lacks the factor 1/N^32
/// in all terms but the first. This is the mean of the maximum of 32 numbers drawn from 1 to N.
#[must_use]
pub fn queue_was(pool: &Pool) -> f64 {
    let n = real(pool.threads);
    (0..pool.threads).map(|k| 1.0 - (real(k) / n).powi(LANES)).sum()
}

/// Theorem 1, exactly: the factor by which a bitmap word of `width` bits shortens the mean walk. The
/// theorem's limit is `width`, as N approaches A, for A much smaller than T.
#[must_use]
pub fn tas_gain(pool: &Pool, width: u32) -> f64 {
    pool.tas(1) / pool.tas(width)
}

/// Theorem 2: the limit of Equation 5 as N approaches A, given Equation 3: V/w + (w-1)/(2w).
#[must_use]
pub fn was_bound_limit(pool: &Pool, width: u32) -> f64 {
    let w = f64::from(width);
    pool.was_bound(1) / w + (w - 1.0) / (2.0 * w)
}

#[expect(clippy::cast_precision_loss, reason = "threads stay far below 2^53")]
fn real(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: u64 = 1_000_000;
    const THREADS: u64 = 5000;

    /// Asserts equality within the given digits.
    fn near(value: f64, expected: f64, digits: f64, case: &str) {
        assert!(
            (value - expected).abs() <= digits / 2.0 + 1e-9,
            "{case}: {value}, expected {expected}"
        );
    }

    #[test]
    fn queue_grows_with_threads() {
        let pool = Pool {
            pages: PAGES,
            free: PAGES / 2,
            threads: THREADS,
        };
        near(queue_tas(&pool), 2500.5, 0.1, "TAS");
        near(queue_was(&pool), 4848.0, 2.0, "WAS");
    }

    #[test]
    fn theorem_1_holds_for_few_free_pages() {
        let drained = |free| Pool {
            pages: PAGES,
            free,
            threads: free,
        };
        near(tas_gain(&drained(10_000), 32), 31.5, 0.1, "1 % free");
        near(tas_gain(&drained(500_000), 32), 16.3, 0.1, "50 % free");
        near(tas_gain(&drained(100), 32), 32.0, 0.1, "0.01 % free");
    }

    #[test]
    fn was_bound_approaches_theorem_2() {
        for width in [32, 64] {
            let nearly = Pool {
                pages: PAGES,
                free: THREADS + 5,
                threads: THREADS,
            };
            let (bound, limit) = (nearly.was_bound(width), was_bound_limit(&nearly, width));
            assert!(
                (bound / limit - 1.0).abs() < 1e-3,
                "{width} bits: {bound}, limit {limit}"
            );
        }
    }
}
