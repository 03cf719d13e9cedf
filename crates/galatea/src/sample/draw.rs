//! Which rows of a table are drawn: a function of the seed and of their numbers.

use std::fmt;

/// Rows of a block of SYSTEM.
pub(super) const BLOCK: u64 = 2048;

/// The way rows are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Draw {
    /// Each row with this probability.
    Each(f64),
    /// Each block of rows with this probability.
    Blocks(f64),
    /// This number of rows.
    Rows(u64),
}

impl Draw {
    /// Each row with a probability in percent.
    pub(super) fn each(percent: f64) -> Self {
        Self::Each(percent / 100.0)
    }

    /// Each block with a probability in percent.
    pub(super) fn blocks(percent: f64) -> Self {
        Self::Blocks(percent / 100.0)
    }
}

/// A sample of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    pub(super) draw: Draw,
    /// The seed; none if each query has its own.
    pub(super) seed: Option<u64>,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.draw {
            Draw::Each(share) => write!(f, "bernoulli {} %", share * 100.0)?,
            Draw::Blocks(share) => write!(f, "system {} %", share * 100.0)?,
            Draw::Rows(rows) => write!(f, "{rows} rows")?,
        }
        match self.seed {
            Some(seed) => write!(f, ", seed {seed}"),
            None => Ok(()),
        }
    }
}

/// The finaliser of splitmix64: a bijection that spreads each bit over all.
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A pseudo-random word for each number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lots(u64);

impl Lots {
    pub(super) fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x6a09_e667_f3bc_c908))
    }

    /// The word of a number. Different numbers have different words.
    pub(super) fn of(self, number: u64) -> u64 {
        mix(self.0.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Whether a number is among a share of all.
    pub(super) fn wins(self, number: u64, share: f64) -> bool {
        // From 0 to 2^64: none, and all.
        let bound = (share * 2f64.powi(64)) as u128;
        u128::from(self.of(number)) < bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_kept() {
        for seed in [0, 1, 42, u64::MAX] {
            let lots = Lots::new(seed);
            let drawn = |share: f64| (0..100_000).filter(|&number| lots.wins(number, share)).count();
            assert_eq!(drawn(0.0), 0);
            assert_eq!(drawn(1.0), 100_000);
            for share in [0.01, 0.1, 0.5, 0.9] {
                // Five standard deviations.
                let variance: f64 = 100_000.0 * share * (1.0 - share);
                let bound = 5.0 * variance.sqrt();
                let off = (drawn(share) as f64 - 100_000.0 * share).abs();
                assert!(off < bound, "seed {seed}, share {share}: {off} > {bound}");
            }
        }
    }

    #[test]
    fn seeds_draw_other_rows() {
        let (one, other) = (Lots::new(1), Lots::new(2));
        let both = (0..100_000).filter(|&number| one.wins(number, 0.1) && other.wins(number, 0.1));
        let both = both.count();
        assert!((850..1150).contains(&both), "{both} of about 1000");
    }
}
