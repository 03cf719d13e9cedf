//! One worker: gives the rows of its blocks their slots, access by access.
//!
//! **The conflict window** (Sitaridi & Ross §3.3). Atomics of other warps may still be in flight when a warp
//! makes its access, so copies that the last `window` accesses of the block used are not used again:
//!
//! ```text
//! accesses of a block     ... t-5  t-4  t-3  t-2  t-1   t                      window 4
//! copies not for t                 \________________/                          Copies::banks_unused_since(value, t - 4)
//! ```
//!
//! The clock `now` counts accesses and jumps by a window between blocks. Among the copies that are allowed
//! the one used longest ago is taken (`Worker::pick`). Where the budget permits no new copy, a row takes one
//! within the window, and `Steps::between_warps` counts it. The window is that of the [`Goal`];
//! `ConflictLayout::WINDOW` of the store, 16, is the default.

use std::sync::atomic::{AtomicU32, Ordering};

use super::copies::{Copies, CopyLog, Created};
use super::matching::Matching;
use super::{Goal, Steps};
use crate::banks::{BankOrder, WIDEST};
use crate::pattern::{AccessPattern, for_each_access};

const LANES: usize = WIDEST as usize;

pub(super) struct Worker<'a> {
    goal: Goal,
    window: u64,
    banks: u32,
    copies: Copies<'a>,
    /// Accesses done, plus a window between blocks; the time of use of a copy.
    now: u64,
    access: Access,
    pub(super) steps: Steps,
}

/// The access in hand. Items, which need a bank each, are rows, or for reads different values.
#[derive(Debug, Default)]
struct Access {
    values: Vec<u32>,
    /// Per item, the banks with a copy that may be used.
    banks: Vec<u32>,
    /// Item of each row.
    item_of: Vec<usize>,
    /// Per item, its slot.
    slots: Vec<u32>,
}

/// Some items of an access, in order.
#[derive(Debug)]
struct Items {
    items: [u8; LANES],
    len: usize,
}

impl Items {
    /// The first `len` items.
    fn all(len: usize) -> Self {
        let items = std::array::from_fn(|item| item as u8);
        Self { items, len }
    }

    /// Keeps those for which `keep` is true.
    fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) {
        let mut kept = 0;
        for at in 0..self.len {
            if keep(self.items[at] as usize) {
                self.items[kept] = self.items[at];
                kept += 1;
            }
        }
        self.len = kept;
    }
}

impl<'a> Worker<'a> {
    pub(super) fn new(log: &'a CopyLog, goal: Goal, banks: u32) -> Self {
        let window = goal.window() as u64;
        Self {
            goal,
            window,
            banks,
            copies: Copies::new(log),
            now: window,
            access: Access::default(),
            steps: Steps::default(),
        }
    }

    /// Places the rows of a block: reads their values from `column` and writes their slots to it.
    pub(super) fn block<P: AccessPattern + ?Sized>(
        &mut self,
        column: &[AtomicU32],
        pattern: &P,
        block: usize,
    ) {
        // Conflicts between warps are those of one block (§3.3).
        self.now += self.window;
        let mut number = block;
        for_each_access(pattern, column.len(), block, |_, rows| {
            self.now += 1;
            self.copies.update();
            self.read(rows.iter().map(|&row| column[row].load(Ordering::Relaxed)));
            // Each access starts from another bank (§3.1).
            let order = BankOrder(number as u32 % self.banks.count_ones());
            number += 1;
            match self.goal {
                Goal::WritesByValue { .. } => self.choose_by_value(order),
                Goal::Reads | Goal::Writes { .. } => self.choose_by_bank(order),
            }
            for (&row, &item) in rows.iter().zip(&self.access.item_of) {
                column[row].store(self.access.slots[item], Ordering::Relaxed);
            }
            self.steps.accesses += 1;
            self.steps.rows += rows.len() as u64;
        });
    }

    /// The items of an access.
    fn read(&mut self, values: impl Iterator<Item = u32>) {
        let access = &mut self.access;
        access.values.clear();
        access.item_of.clear();
        for value in values {
            // Lanes that read one value share a copy (§3.2); lanes that write it need one each.
            let shared = match self.goal {
                Goal::Reads => access.values.iter().position(|&other| other == value),
                Goal::Writes { .. } | Goal::WritesByValue { .. } => None,
            };
            access.item_of.push(shared.unwrap_or(access.values.len()));
            if shared.is_none() {
                access.values.push(value);
            }
        }
        access.slots.clear();
        access.slots.resize(access.values.len(), 0);
    }

    /// Looks up which banks each item may have, with the window or without.
    fn look_up(&mut self) {
        let access = &mut self.access;
        access.banks.clear();
        for (item, &value) in access.values.iter().enumerate() {
            let before = access.values[..item].iter().position(|&other| other == value);
            let banks = match before {
                Some(before) => access.banks[before],
                None if self.window == 0 => self.copies.banks(value),
                None => self.copies.banks_unused_since(value, self.now - self.window),
            };
            access.banks.push(banks);
        }
    }

    /// A bank for every item. Those that find none, with the budget spent, take further rounds.
    fn choose_by_bank(&mut self, order: BankOrder) {
        let mut load = [0; LANES];
        let mut waiting = Items::all(self.access.values.len());
        self.round(&mut waiting, &mut load, order);
        self.steps.conflicting += waiting.len as u64;
        while waiting.len > 0 {
            self.round(&mut waiting, &mut load, order);
        }
        self.steps.rounds += u64::from(load.into_iter().max().unwrap_or(0));
    }

    /// Places as many items as a round can take, at least one: on free copies, by relocations, on new copies
    /// (§3.1).
    fn round(&mut self, waiting: &mut Items, load: &mut [u32; LANES], order: BankOrder) {
        self.look_up();
        let mut matching = Matching::new(self.banks, order);
        waiting.retain(|item| !self.put(&mut matching, item, order));
        // All relocations come before all copies: a copy in a bank that another item could have had would
        // cost another.
        self.relocate_each(waiting, &mut matching, order, Self::usable);
        if self.copies.has_room(self.banks) {
            waiting.retain(|item| !self.create(&mut matching, item, order));
        }
        // With the budget spent, conflicts between warps are accepted before those within one (§3.3).
        self.relocate_each(waiting, &mut matching, order, Self::existing);
        for (bank, item) in matching.pairs() {
            load[bank as usize] += 1;
            self.take(item, bank);
        }
    }

    /// Banks of copies that an item may use.
    fn usable(&self, item: usize) -> u32 {
        self.access.banks[item]
    }

    /// Banks of all copies that an item could use, regardless of other warps.
    fn existing(&self, item: usize) -> u32 {
        self.copies.banks(self.access.values[item])
    }

    /// Gives an item an empty bank of one of its copies, if there is one.
    fn put(&self, matching: &mut Matching, item: usize, order: BankOrder) -> bool {
        let free = self.usable(item) & matching.empty();
        if free != 0 {
            matching.put(item, self.pick(order, item, free));
        }
        free != 0
    }

    /// Gives banks to items by relocating others.
    fn relocate_each(
        &mut self,
        waiting: &mut Items,
        matching: &mut Matching,
        order: BankOrder,
        banks: fn(&Self, usize) -> u32,
    ) {
        // Where all copies together reach no empty bank, there is nothing to search (§3.1, the first reason
        // to fail).
        let reached = (0..self.access.values.len()).fold(0, |all, item| all | banks(self, item));
        waiting
            .retain(|item| reached & matching.empty() == 0 || !self.relocate(matching, item, order, banks));
    }

    /// Gives an item a bank by relocating others, if they can be.
    fn relocate(
        &mut self,
        matching: &mut Matching,
        item: usize,
        order: BankOrder,
        banks: fn(&Self, usize) -> u32,
    ) -> bool {
        let pick = |item, free| self.pick(order, item, free);
        let Some(moved) = matching.relocate(item, |item| banks(self, item), pick) else {
            return false;
        };
        self.steps.relocated += u64::from(moved);
        true
    }

    /// Creates a copy for an item, if the budget permits, and gives it its bank.
    fn create(&mut self, matching: &mut Matching, item: usize, order: BankOrder) -> bool {
        // Copies created for other items, here or by other workers, may do.
        while !self.relocate(matching, item, order, Self::usable) {
            let candidates = matching.emptiable(|item| self.usable(item));
            let value = self.access.values[item];
            match self.copies.create(value, candidates, order) {
                Created::In(bank) => {
                    self.steps.created += 1;
                    for (other, banks) in self.access.values.iter().zip(&mut self.access.banks) {
                        *banks |= u32::from(*other == value) << bank;
                    }
                }
                Created::Stale => self.look_up(),
                Created::Spent => return false,
            }
        }
        true
    }

    /// Which of several banks an item takes: that of the copy used longest ago (§3.3), or without a window
    /// the first.
    fn pick(&self, order: BankOrder, item: usize, banks: u32) -> u32 {
        let mut banks = order.of(banks);
        let bank = if self.window == 0 {
            banks.next()
        } else {
            banks.min_by_key(|&bank| self.copies.last_use(self.access.values[item], bank))
        };
        bank.unwrap_or(0)
    }

    /// Figure 7's variant: a copy of its own for every item, in whichever bank.
    fn choose_by_value(&mut self, order: BankOrder) {
        let mut load = [0_u32; LANES];
        for item in 0..self.access.values.len() {
            let value = self.access.values[item];
            let bank = loop {
                let unused = self.copies.banks_unused_since(value, self.now - self.window);
                if unused != 0 {
                    break self.pick(order, item, unused);
                }
                match self.copies.create(value, self.banks, order) {
                    Created::In(bank) => {
                        self.steps.created += 1;
                        break bank;
                    }
                    Created::Stale => {}
                    Created::Spent => {
                        let fresh = self.copies.banks_unused_since(value, self.now);
                        self.steps.conflicting += u64::from(fresh == 0);
                        let any = if fresh == 0 {
                            self.copies.banks(value)
                        } else {
                            fresh
                        };
                        break self.pick(order, item, any);
                    }
                }
            };
            load[bank as usize] += 1;
            self.take(item, bank);
        }
        self.steps.rounds += u64::from(load.into_iter().max().unwrap_or(0));
    }

    /// Uses the copy of an item in a bank.
    fn take(&mut self, item: usize, bank: u32) {
        let (slot, before) = self.copies.take(self.access.values[item], bank, self.now);
        self.access.slots[item] = slot;
        let recent = before + self.window >= self.now && before < self.now;
        self.steps.between_warps += u64::from(recent);
    }
}
