//! Selects the rows of a sample, as a function of the seed and of their numbers.

use std::fmt;

/// Rows of a block of SYSTEM.
pub(super) const BLOCK: u64 = 2048;

/// The sampling method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Draw {
    /// Each row with this probability.
    Each(f64),
    /// Each block of rows with this probability.
    Blocks(f64),
    /// This number of rows.
    Rows(u64),
}

impl Draw {
    /// Each row with a probability in percent.
    pub fn each(percent: f64) -> Self {
        Self::Each(percent / 100.0)
    }

    /// Each block with a probability in percent.
    pub fn blocks(percent: f64) -> Self {
        Self::Blocks(percent / 100.0)
    }
}

/// A sample of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// The sampling method.
    pub draw: Draw,
    /// The seed; `None` if each query has its own.
    pub seed: Option<u64>,
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
pub struct Lots(u64);

impl Lots {
    /// The words for a seed.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x6a09_e667_f3bc_c908))
    }

    /// The state that determines the word of a number.
    pub(crate) fn state(self) -> u64 {
        self.0
    }

    /// The word of a number. Different numbers have different words.
    pub fn of(self, number: u64) -> u64 {
        mix(self.0.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Whether the word of a number is among a share of all words.
    pub fn wins(self, number: u64, share: f64) -> bool {
        u128::from(self.of(number)) < bound(share)
    }

    /// The lower bound of the words that are not drawn, if the numbers below `numbers` draw the `wanted`
    /// lowest words; 2^64 if they draw all.
    pub(crate) fn bound_of(self, wanted: u64, numbers: u64) -> u128 {
        if wanted >= numbers {
            return 1 << 64;
        }
        // The words are uniformly distributed: few of them are near the bound.
        let mut counts = vec![0_u64; 1 << BUCKET_BITS];
        let bucket = |word: u64| (word >> (64 - BUCKET_BITS)) as usize;
        (0..numbers).for_each(|number| counts[bucket(self.of(number))] += 1);
        let mut below = 0;
        let last = counts.iter().position(|count| {
            below += count;
            below > wanted
        });
        let Some(last) = last else { return 1 << 64 };
        let near = (0..numbers).map(|number| self.of(number));
        let mut near: Vec<u64> = near.filter(|word| bucket(*word) == last).collect();
        near.sort_unstable();
        let before = below - counts[last];
        near[(wanted - before) as usize].into()
    }
}

/// Bits of a word that select its bucket.
const BUCKET_BITS: u32 = 16;

/// The lowest word outside a share of all words; from 0 to 2^64.
pub(crate) fn bound(share: f64) -> u128 {
    (share * 2f64.powi(64)) as u128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampled_share_matches_probability() {
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
    fn bound_selects_requested_number_of_rows() {
        for (wanted, numbers) in [
            (0, 1),
            (1, 2),
            (0, 1000),
            (999, 1000),
            (1000, 1000),
            (70_000, 200_000),
        ] {
            let lots = Lots::new(wanted);
            let bound = lots.bound_of(wanted, numbers);
            let drawn = (0..numbers).filter(|number| u128::from(lots.of(*number)) < bound);
            assert_eq!(drawn.count() as u64, wanted, "of {numbers}");
        }
        assert_eq!(Lots::new(1).bound_of(5, 4), 1 << 64);
    }

    #[test]
    fn different_seeds_sample_different_rows() {
        let (one, other) = (Lots::new(1), Lots::new(2));
        let both = (0..100_000).filter(|&number| one.wins(number, 0.1) && other.wins(number, 0.1));
        let both = both.count();
        assert!((850..1150).contains(&both), "{both} of about 1000");
    }
}
