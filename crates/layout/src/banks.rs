//! Banks of shared memory, and the cost of an access to them.
//!
//! Word *i* of shared memory is in bank *i* mod 32 (Sitaridi & Ross §2). The *rounds* of a warp's access are
//! the requests to its most accessed bank (§1, §A.2): lanes that read one word share a request, lanes that
//! write it do not.

use crate::error::{LayoutError, Result};

/// The most banks, and the most lanes, on every GPU since Fermi.
pub const WIDEST: u32 = 32;

/// Banks of shared memory: 32 banks of 4-byte words on every GPU; fewer in examples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Banks(u32);

impl Default for Banks {
    fn default() -> Self {
        Self(WIDEST)
    }
}

impl Banks {
    /// Creates shared memory of `count` banks.
    ///
    /// # Errors
    /// [`LayoutError::Width`] unless `count` is 1 to 32.
    pub fn new(count: u32) -> Result<Self> {
        if (1..=WIDEST).contains(&count) {
            return Ok(Self(count));
        }
        Err(LayoutError::Width {
            what: "banks",
            asked: count,
            limit: WIDEST,
        })
    }

    /// Number of banks.
    #[must_use]
    pub fn count(self) -> u32 {
        self.0
    }

    /// Bank of a word.
    #[must_use]
    #[inline]
    pub fn of(self, word: u32) -> u32 {
        word % self.0
    }

    /// A mask with a bit per bank.
    pub(crate) fn mask(self) -> u32 {
        u32::MAX >> (WIDEST - self.0)
    }

    /// The cost of an access to these words, one word per active lane.
    #[must_use]
    pub fn rounds(self, words: &[u32]) -> Rounds {
        let mut writes = [0_u32; WIDEST as usize];
        let mut reads = [0_u32; WIDEST as usize];
        for (lane, &word) in words.iter().enumerate() {
            let bank = self.of(word) as usize;
            writes[bank] += 1;
            reads[bank] += u32::from(!words[..lane].contains(&word));
        }
        let most = |counts: [u32; WIDEST as usize]| counts.into_iter().max().unwrap_or(0);
        Rounds {
            banks: writes.iter().map(|&wanted| u32::from(wanted > 0)).sum(),
            read: most(reads),
            write: most(writes),
        }
    }
}

/// A cyclic order of the banks that begins with one of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BankOrder(pub(crate) u32);

impl BankOrder {
    /// The banks of a mask, in this order.
    #[inline]
    pub(crate) fn of(self, mask: u32) -> impl Iterator<Item = u32> {
        let mut left = mask.rotate_right(self.0);
        std::iter::from_fn(move || {
            let at = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some((at + self.0) % WIDEST)
        })
    }
}

/// The cost of an access.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rounds {
    /// Number of different banks accessed.
    pub banks: u32,
    /// Serialisation rounds of a read: the most different words in one bank.
    pub read: u32,
    /// Serialisation rounds of a write: the most lanes in one bank.
    pub write: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_map_to_banks_cyclically() {
        let banks = Banks::default();
        assert_eq!(banks.of(3), banks.of(35));
        assert_ne!(banks.of(3), banks.of(3207));
        assert_eq!(banks.of(3207), 7);
    }

    /// Figure 1: 2-way bank conflicts in banks 11, 13, 24 and 26, and threads 22, 23 and 25 on one item.
    #[test]
    fn figure_1() {
        let mut words: Vec<u32> = (0..32).collect();
        for (lane, bank) in [(0, 11), (1, 13), (2, 24), (3, 26)] {
            words[lane] = 32 + bank;
        }
        for lane in [22, 23, 25] {
            words[lane] = 64 + 22;
        }
        let rounds = Banks::default().rounds(&words);
        assert_eq!((rounds.read, rounds.write), (2, 3));
    }

    #[test]
    fn access_cost_is_that_of_the_busiest_bank() {
        let cost = |words: &[u32]| {
            let rounds = Banks::default().rounds(words);
            (rounds.banks, rounds.read, rounds.write)
        };
        assert_eq!(cost(&[]), (0, 0, 0));
        assert_eq!(cost(&[5]), (1, 1, 1));
        assert_eq!(cost(&[7; 32]), (1, 1, 32));
        assert_eq!(
            cost(&std::array::from_fn::<u32, 32, _>(|lane| lane as u32 * 32)),
            (1, 32, 32)
        );
        assert_eq!(
            cost(&std::array::from_fn::<u32, 32, _>(|lane| lane as u32 * 3)),
            (32, 1, 1)
        );
        assert_eq!(cost(&[0, 32, 1, 1, 1]), (2, 2, 3));
    }

    #[test]
    fn bank_orders_are_cyclic() {
        let order = |start, mask| BankOrder(start).of(mask).collect::<Vec<_>>();
        assert_eq!(order(0, 0b1001), [0, 3]);
        assert_eq!(order(1, 0b1001), [3, 0]);
        assert_eq!(order(31, 1 << 31 | 1), [31, 0]);
        assert_eq!(order(5, 0), []);
        assert_eq!(order(7, u32::MAX).len(), 32);
    }

    #[test]
    fn there_are_1_to_32_banks() {
        assert!(Banks::new(8).is_ok());
        assert_eq!(Banks::new(8).map(Banks::mask), Ok(0xff));
        for asked in [0, 33] {
            assert!(matches!(Banks::new(asked), Err(LayoutError::Width { .. })));
        }
    }
}
