//! Matches items of one access to banks: one item per bank (Sitaridi & Ross §3.1).

use crate::banks::{BankOrder, WIDEST};

const NOBODY: u8 = u8::MAX;
/// The start of a search.
const START: u8 = u8::MAX;

/// The bank of each item of an access. Banks of an item are given as masks, a bit per bank.
#[derive(Debug)]
pub(super) struct Matching {
    item: [u8; WIDEST as usize],
    empty: u32,
    order: BankOrder,
}

impl Matching {
    /// Creates a matching with all banks of `banks` empty. Searches visit banks in `order`. The order differs
    /// between accesses, so that the banks left over vary (§3.1).
    pub(super) fn new(banks: u32, order: BankOrder) -> Self {
        Self {
            item: [NOBODY; WIDEST as usize],
            empty: banks,
            order,
        }
    }

    /// Banks without an item.
    pub(super) fn empty(&self) -> u32 {
        self.empty
    }

    /// Assigns an empty bank to an item.
    pub(super) fn put(&mut self, item: usize, bank: u32) {
        self.item[bank as usize] = item as u8;
        self.empty &= !(1 << bank);
    }

    /// The assigned banks and their items.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (u32, usize)> {
        let taken = (0..).zip(self.item);
        taken.filter_map(|(bank, item)| (item != NOBODY).then_some((bank, item as usize)))
    }

    /// The banks that are empty, or that relocations can empty.
    pub(super) fn emptiable(&self, banks: impl Fn(usize) -> u32) -> u32 {
        let mut emptiable = self.empty;
        loop {
            let before = emptiable;
            for (bank, item) in self.pairs() {
                emptiable |= u32::from(banks(item) & emptiable != 0) << bank;
            }
            if emptiable == before {
                return emptiable;
            }
        }
    }

    /// Assigns a bank to an item by the shortest sequence of relocations, found breadth first: the item takes
    /// one of its banks, that bank's item moves to another of its banks, and so on until an empty one.
    /// `banks` returns the banks of an item, `pick` chooses among empty banks for an item. Returns the number
    /// of items moved, or `None`, without any change, if no empty bank can be reached.
    pub(super) fn relocate(
        &mut self,
        item: usize,
        banks: impl Fn(usize) -> u32,
        pick: impl Fn(usize, u32) -> u32,
    ) -> Option<u32> {
        let mut queue = [0_u8; WIDEST as usize];
        let mut from = [START; WIDEST as usize];
        let (mut next, mut end) = (0, 0);
        let mut unseen = !self.empty;
        let (mut mover, mut bank) = (item, START);
        loop {
            let free = banks(mover) & self.empty;
            if free != 0 {
                return Some(self.shift(item, mover, bank, pick(mover, free), &from));
            }
            let enter = banks(mover) & unseen;
            unseen &= !enter;
            for entered in self.order.of(enter) {
                from[entered as usize] = bank;
                queue[end] = entered as u8;
                end += 1;
            }
            if next == end {
                return None;
            }
            bank = queue[next];
            next += 1;
            mover = self.item[bank as usize] as usize;
        }
    }

    /// Moves each item on the path one bank further: `mover` from `bank` to the empty bank `to`, and so on
    /// back to `item`.
    fn shift(&mut self, item: usize, mover: usize, bank: u8, to: u32, from: &[u8]) -> u32 {
        let (mut mover, mut bank, mut to, mut moved) = (mover, bank, to, 0);
        self.empty &= !(1 << to);
        loop {
            self.item[to as usize] = mover as u8;
            if bank == START {
                return moved;
            }
            moved += 1;
            to = u32::from(bank);
            bank = from[bank as usize];
            mover = if bank == START {
                item
            } else {
                self.item[bank as usize] as usize
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The items of Figure 2, an access of 8 rows and 8 banks: 531 displaces 14, which displaces 6, which has
    /// a copy in an empty bank; 15 reaches no empty bank, only bank 4 is left. The paper's drawing is not
    /// reproduced; this is an instance of the case in its text.
    #[test]
    fn figure_2() {
        let values = [531, 14, 6, 15, 20, 33, 9, 2];
        let banks = [
            1 << 3,
            1 << 3 | 1 << 6,
            1 << 6 | 1 << 0,
            1 << 7,
            1 << 7 | 1 << 2,
            1 << 1,
            1 << 5,
            1 << 2,
        ];
        let mut matching = Matching::new(0xff, BankOrder(0));
        let at = |value: u32| values.iter().position(|&v| v == value).unwrap();
        for (value, bank) in [(14, 3), (6, 6), (20, 7), (33, 1), (9, 5), (2, 2)] {
            assert_ne!(banks[at(value)] & 1 << bank, 0);
            matching.put(at(value), bank);
        }
        let first = |_: usize, mask: u32| mask.trailing_zeros();
        assert_eq!(matching.relocate(at(531), |item| banks[item], first), Some(2));
        let found: Vec<_> = matching
            .pairs()
            .map(|(bank, item)| (bank, values[item]))
            .collect();
        assert_eq!(
            found,
            [(0, 6), (1, 33), (2, 2), (3, 531), (5, 9), (6, 14), (7, 20)]
        );
        assert_eq!(matching.relocate(at(15), |item| banks[item], first), None);
        assert_eq!(matching.empty(), 1 << 4, "a copy of 15 goes to bank 4");
        matching.put(at(15), 4);
        assert_eq!(matching.empty(), 0);
    }

    /// Compared with all orders of assigning banks, on small random instances.
    #[test]
    fn matching_is_maximum() {
        use rand::{Rng, SeedableRng};
        fn most(banks: &[u32], taken: u32) -> usize {
            let Some((&first, rest)) = banks.split_first() else {
                return 0;
            };
            let with = (0..8).filter(|bank| (first & !taken) >> bank & 1 == 1);
            with.map(|bank| 1 + most(rest, taken | 1 << bank))
                .chain([most(rest, taken)])
                .max()
                .unwrap()
        }
        for seed in 0..300 {
            let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let count = random.random_range(1..=6);
            let banks: Vec<u32> = (0..count)
                .map(|_| random.random::<u32>() & random.random::<u32>() & 0xff)
                .collect();
            let mut matching = Matching::new(0xff, BankOrder(random.random_range(0..8)));
            for item in 0..count {
                let _ = matching.relocate(item, |item| banks[item], |_, mask| mask.trailing_zeros());
            }
            let pairs: Vec<_> = matching.pairs().collect();
            assert_eq!(pairs.len(), most(&banks, 0), "seed {seed}: {banks:?}");
            assert!(
                pairs.iter().all(|&(bank, item)| banks[item] >> bank & 1 == 1),
                "seed {seed}"
            );
        }
    }
}
