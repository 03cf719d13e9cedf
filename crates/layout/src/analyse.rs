//! The analyser: counts how the accesses of a column conflict (Sitaridi & Ross §1, §2, Table 1).

use std::ops::AddAssign;

use rayon::prelude::*;

use crate::banks::Banks;
use crate::pattern::{AccessPattern, for_each_access};

/// Counts conflicts.
///
/// ```
/// use galatea_layout::{Analyser, Tiles};
///
/// // 32 lanes read column 0 of a matrix with 32 columns: all words are in one bank.
/// let words: Vec<u32> = (0..32).map(|row| row * 32).collect();
/// let conflicts = Analyser::default().words(&words, &Tiles::paper());
/// assert_eq!(conflicts.mean_read_rounds(), 32.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Analyser {
    /// The banks.
    pub banks: Banks,
    /// Number of preceding accesses of the same block that may still be in flight (§3.3). For a window above
    /// 0 the analyser holds 8 bytes per word of the array and thread.
    pub window: usize,
}

impl Analyser {
    /// Counts the conflicts of accesses to an array of words. Each row contains the word that it accesses: a
    /// slot of a laid-out column, or a group number if each group has one 4-byte accumulator.
    #[must_use]
    pub fn words<P: AccessPattern + ?Sized>(&self, words: &[u32], pattern: &P) -> Conflicts {
        self.groups(words, pattern, |group, _| group)
    }

    /// Like [`Self::words`], if the accessed word follows from the row's group and the lane: arrays with
    /// replicated accumulators.
    #[must_use]
    pub fn groups<P, W>(&self, groups: &[u32], pattern: &P, word: W) -> Conflicts
    where
        P: AccessPattern + ?Sized,
        W: Fn(u32, usize) -> u32 + Sync,
    {
        let rows = groups.len();
        (0..pattern.blocks(rows))
            .into_par_iter()
            .fold(
                || (Conflicts::default(), Recent::new(self.window)),
                |(mut conflicts, mut recent), block| {
                    let mut words = Vec::with_capacity(pattern.lanes());
                    recent.forget();
                    for_each_access(pattern, rows, block, |lanes, rows| {
                        words.clear();
                        words.extend(
                            lanes
                                .iter()
                                .zip(rows)
                                .map(|(&lane, &row)| word(groups[row], lane)),
                        );
                        conflicts.add(self.banks, &words);
                        conflicts.between_warps += recent.touch(&words);
                    });
                    (conflicts, recent)
                },
            )
            .map(|(conflicts, _)| conflicts)
            .reduce(Conflicts::default, |mut all, some| {
                all += some;
                all
            })
    }
}

/// The access that last touched each word.
struct Recent {
    window: u64,
    clock: u64,
    last: Vec<u64>,
}

impl Recent {
    fn new(window: usize) -> Self {
        let window = window as u64;
        Self {
            window,
            clock: window,
            last: Vec::new(),
        }
    }

    /// Forgets all accesses at the beginning of another block.
    fn forget(&mut self) {
        self.clock += self.window;
    }

    /// Records the words of an access. Returns the number of those that an earlier access of the window
    /// touched.
    fn touch(&mut self, words: &[u32]) -> u64 {
        if self.window == 0 {
            return 0;
        }
        self.clock += 1;
        if let Some(&most) = words.iter().max()
            && self.last.len() <= most as usize
        {
            self.last.resize(most as usize + 1, 0);
        }
        let earliest = self.clock - self.window;
        let mut recent = 0;
        for &word in words {
            let last = std::mem::replace(&mut self.last[word as usize], self.clock);
            recent += u64::from((earliest..self.clock).contains(&last));
        }
        recent
    }
}

/// Sums over the conflicts of several accesses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Conflicts {
    /// Accesses by a warp.
    pub accesses: u64,
    /// Accesses by a lane.
    pub lanes: u64,
    /// Number of different banks accessed, summed over accesses.
    pub banks: u64,
    /// Serialisation rounds if the accesses are reads.
    pub read_rounds: u64,
    /// Serialisation rounds if the accesses are writes or atomics.
    pub write_rounds: u64,
    /// Read rounds of the worst access.
    pub worst_read: u32,
    /// Write rounds of the worst access.
    pub worst_write: u32,
    /// Number of words of an access that an earlier access of the window touched, summed over accesses: value
    /// conflicts between warps.
    pub between_warps: u64,
}

impl Conflicts {
    fn add(&mut self, banks: Banks, words: &[u32]) {
        let rounds = banks.rounds(words);
        self.accesses += 1;
        self.lanes += words.len() as u64;
        self.banks += u64::from(rounds.banks);
        self.read_rounds += u64::from(rounds.read);
        self.write_rounds += u64::from(rounds.write);
        self.worst_read = self.worst_read.max(rounds.read);
        self.worst_write = self.worst_write.max(rounds.write);
    }

    fn per_access(&self, sum: u64) -> f64 {
        sum as f64 / self.accesses.max(1) as f64
    }

    /// Mean number of different banks of an access.
    #[must_use]
    pub fn mean_banks(&self) -> f64 {
        self.per_access(self.banks)
    }

    /// Mean serialisation rounds of an access that reads.
    #[must_use]
    pub fn mean_read_rounds(&self) -> f64 {
        self.per_access(self.read_rounds)
    }

    /// Mean serialisation rounds of an access that writes.
    #[must_use]
    pub fn mean_write_rounds(&self) -> f64 {
        self.per_access(self.write_rounds)
    }

    /// Mean number of words of an access with a value conflict between warps.
    #[must_use]
    pub fn mean_between_warps(&self) -> f64 {
        self.per_access(self.between_warps)
    }
}

impl AddAssign for Conflicts {
    fn add_assign(&mut self, other: Self) {
        self.accesses += other.accesses;
        self.lanes += other.lanes;
        self.banks += other.banks;
        self.read_rounds += other.read_rounds;
        self.write_rounds += other.write_rounds;
        self.worst_read = self.worst_read.max(other.worst_read);
        self.worst_write = self.worst_write.max(other.worst_write);
        self.between_warps += other.between_warps;
    }
}
