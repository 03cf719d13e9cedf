//! The copies of each value: one list that all workers extend, and each worker's view of it.
//!
//! Copies are created rarely and looked up all the time. So each worker looks up copies in a view of its own,
//! which also records its use of each copy. Copies are created through one locked log, [`CopyLog`]. A worker
//! reads new entries of the log before each access (one atomic load if the log has none) and before it
//! appends: two workers that need the same copy do not both create it.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::banks::{BankOrder, Banks};
use crate::slot_map::SlotMap;

/// Constants of all workers: the table's shape without copies, and its limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableShape {
    pub(super) banks: Banks,
    pub(super) values: usize,
    /// The most slots that the budget permits.
    pub(super) limit: usize,
}

/// The copies created so far, in order: slot and value. The values themselves, slots 0 to values - 1, are not
/// included.
#[derive(Debug)]
pub(super) struct CopyLog {
    shape: TableShape,
    entries: Mutex<Vec<(u32, u32)>>,
    len: AtomicUsize,
}

/// Result of creating a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Created {
    /// A new copy was created in this bank.
    In(u32),
    /// Other workers have created copies meanwhile: the caller has to look again.
    Stale,
    /// The budget has no room in any of the banks.
    Spent,
}

impl CopyLog {
    pub(super) fn new(shape: TableShape) -> Self {
        Self {
            shape,
            entries: Mutex::new(Vec::new()),
            len: AtomicUsize::new(0),
        }
    }

    /// The map from the table's slots to values.
    pub(super) fn into_map(self) -> SlotMap {
        let entries = self.entries.into_inner();
        let values = self.shape.values;
        let last = entries.iter().map(|&(slot, _)| slot as usize + 1).max();
        let mut of_slot: Vec<u32> = (0..values as u32).collect();
        of_slot.resize(last.unwrap_or(0).max(values), SlotMap::HOLE);
        for (slot, value) in entries {
            of_slot[slot as usize] = value;
        }
        SlotMap::new(values, of_slot)
    }
}

/// No slot.
const NONE: u32 = u32::MAX;

/// A worker's view of the copies, with the time of its last use of each.
///
/// The copies of a value in one bank are a ring ordered by use: `newest` is the most recently used copy, and
/// its successor the least recently used one, which is the only candidate (§3.3: least recently used first).
/// Using it advances the ring by one.
#[derive(Debug)]
pub(super) struct Copies<'a> {
    log: &'a CopyLog,
    seen: usize,
    /// Per value and bank, the most recently used copy.
    newest: Vec<u32>,
    /// Per slot, the next copy of the same value and bank in the ring.
    next: Vec<u32>,
    /// Per slot, the time of its last use.
    used: Vec<u64>,
    /// Per value, the banks with a copy.
    banks_of: Vec<u32>,
    /// Per bank, the number of used slots.
    heights: Vec<usize>,
}

impl<'a> Copies<'a> {
    pub(super) fn new(log: &'a CopyLog) -> Self {
        let TableShape { banks, values, .. } = log.shape;
        let mut copies = Self {
            log,
            seen: 0,
            newest: vec![NONE; values * banks.count() as usize],
            next: vec![NONE; values],
            used: vec![0; values],
            banks_of: vec![0; values],
            heights: vec![0; banks.count() as usize],
        };
        for value in 0..values as u32 {
            copies.enter(value, value);
        }
        copies
    }

    /// The banks with a copy of a value.
    pub(super) fn banks(&self, value: u32) -> u32 {
        self.banks_of[value as usize]
    }

    /// The banks with a copy of a value that was last used before `time`.
    pub(super) fn banks_unused_since(&self, value: u32, time: u64) -> u32 {
        let unused = |bank: &u32| self.last_use(value, *bank) < time;
        let banks = BankOrder(0).of(self.banks(value)).filter(unused);
        banks.fold(0, |mask, bank| mask | 1 << bank)
    }

    /// The time of the last use of the least recently used copy of a value in a bank, which must have one.
    pub(super) fn last_use(&self, value: u32, bank: u32) -> u64 {
        self.used[self.oldest(value, bank) as usize]
    }

    /// Uses that copy. Returns its slot, and the time of its previous use.
    pub(super) fn take(&mut self, value: u32, bank: u32, now: u64) -> (u32, u64) {
        let slot = self.oldest(value, bank);
        let ring = self.ring(value, bank);
        self.newest[ring] = slot;
        (slot, std::mem::replace(&mut self.used[slot as usize], now))
    }

    /// Reads new entries of the log. Returns whether it had any.
    pub(super) fn update(&mut self) -> bool {
        if self.log.len.load(Ordering::Acquire) == self.seen {
            return false;
        }
        let log = self.log;
        self.read(&log.entries.lock());
        true
    }

    /// Whether the budget has room for a copy in one of these banks.
    pub(super) fn has_room(&self, banks: u32) -> bool {
        self.lowest(banks, BankOrder(0)).is_some()
    }

    /// Creates a copy of a value in the bank of the mask with the fewest copies (hole avoidance, §3.1), the
    /// first in `order` among equals. The copy counts as never used.
    pub(super) fn create(&mut self, value: u32, banks: u32, order: BankOrder) -> Created {
        if !self.has_room(banks) {
            return Created::Spent; // heights only grow, so the view need not be the latest
        }
        let log = self.log;
        let mut entries = log.entries.lock();
        if entries.len() != self.seen {
            self.read(&entries);
            return Created::Stale;
        }
        let Some((slot, bank)) = self.lowest(banks, order) else {
            return Created::Spent;
        };
        entries.push((slot, value));
        self.enter(slot, value);
        self.seen += 1;
        log.len.store(entries.len(), Ordering::Release);
        Created::In(bank)
    }

    /// The next slot of the bank with the fewest copies, if the budget permits a slot.
    fn lowest(&self, banks: u32, order: BankOrder) -> Option<(u32, u32)> {
        let TableShape {
            banks: all, limit, ..
        } = self.log.shape;
        let slot = |bank: u32| self.heights[bank as usize] * all.count() as usize + bank as usize;
        order
            .of(banks)
            .filter(|&bank| slot(bank) < limit)
            .min_by_key(|&bank| self.heights[bank as usize])
            .map(|bank| (slot(bank) as u32, bank))
    }

    fn read(&mut self, entries: &[(u32, u32)]) {
        for &(slot, value) in &entries[self.seen..] {
            self.enter(slot, value);
        }
        self.seen = entries.len();
    }

    /// Adds a copy as the least recently used one.
    fn enter(&mut self, slot: u32, value: u32) {
        let bank = self.log.shape.banks.of(slot);
        let ring = self.ring(value, bank);
        let at = slot as usize;
        if self.next.len() <= at {
            self.next.resize(at + 1, NONE);
            self.used.resize(at + 1, 0);
        }
        let newest = self.newest[ring];
        if newest == NONE {
            self.newest[ring] = slot;
            self.next[at] = slot;
        } else {
            self.next[at] = self.next[newest as usize];
            self.next[newest as usize] = slot;
        }
        self.banks_of[value as usize] |= 1 << bank;
        self.heights[bank as usize] += 1;
    }

    fn oldest(&self, value: u32, bank: u32) -> u32 {
        self.next[self.newest[self.ring(value, bank)] as usize]
    }

    fn ring(&self, value: u32, bank: u32) -> usize {
        value as usize * self.log.shape.banks.count() as usize + bank as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(values: usize, limit: usize) -> TableShape {
        TableShape {
            banks: Banks::default(),
            values,
            limit,
        }
    }

    #[test]
    fn least_recently_used_copy_is_taken_first() {
        let log = CopyLog::new(shape(32, 1000));
        let mut copies = Copies::new(&log);
        assert_eq!(copies.take(5, 5, 1), (5, 0));
        assert_eq!(copies.create(5, 1 << 5, BankOrder(0)), Created::In(5));
        assert_eq!(copies.create(5, 1 << 5, BankOrder(0)), Created::In(5));
        assert_eq!(copies.banks_unused_since(5, 1), 1 << 5);
        assert_eq!(copies.take(5, 5, 2), (69, 0), "a new copy is unused");
        assert_eq!(copies.take(5, 5, 3), (37, 0));
        assert_eq!(copies.banks_unused_since(5, 1), 0);
        assert_eq!([copies.take(5, 5, 4), copies.take(5, 5, 5)], [(5, 1), (69, 2)]);
    }

    #[test]
    fn padding_and_low_banks_are_filled_first() {
        let log = CopyLog::new(shape(33, 66));
        let mut copies = Copies::new(&log);
        assert_eq!(
            copies.create(0, u32::MAX, BankOrder(0)),
            Created::In(1),
            "bank 0 has two values"
        );
        assert_eq!(copies.create(0, u32::MAX, BankOrder(7)), Created::In(7));
        assert_eq!(
            copies.create(0, 1 << 0, BankOrder(7)),
            Created::In(0),
            "slot 64 is the last but one"
        );
        assert_eq!(copies.create(0, 1 << 0, BankOrder(7)), Created::Spent);
        assert_eq!(
            copies.create(0, 1 << 7, BankOrder(7)),
            Created::Spent,
            "slot 71 is too much"
        );
        let map = log.into_map();
        assert_eq!((map.slots(), map.holes()), (65, 29));
        assert_eq!(map.copies()[0], 4);
        assert_eq!(map.value(39), Some(0));
    }

    #[test]
    fn copies_are_shared_between_workers() {
        let log = CopyLog::new(shape(4, 1000));
        let (mut one, mut other) = (Copies::new(&log), Copies::new(&log));
        assert_eq!(one.create(3, 1 << 9, BankOrder(0)), Created::In(9));
        assert_eq!(
            other.create(3, 1 << 9, BankOrder(0)),
            Created::Stale,
            "it may use that of the first"
        );
        assert_eq!(other.banks(3), 1 << 3 | 1 << 9);
        assert!(!other.update());
        assert_eq!(other.create(3, 1 << 9, BankOrder(0)), Created::In(9));
        assert!(one.update());
        assert_eq!(one.take(3, 9, 1).0, 41);
    }
}
