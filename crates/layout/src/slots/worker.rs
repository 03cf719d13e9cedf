//! One worker: assigns slots to the rows of its blocks, access by access.
//!
//! **The conflict window** (Sitaridi & Ross §3.3). Atomics of other warps may still be in flight when a warp
//! executes its access, so copies that the last `window` accesses of the block used are not used again:
//!
//! ```text
//! accesses of a block     ... t-5  t-4  t-3  t-2  t-1   t                      window 4
//! copies not for t                 \________________/                          Copies::banks_unused_since(value, t - 4)
//! ```
//!
//! The clock `now` counts accesses and advances by a window between blocks. Among the allowed copies, the
//! least recently used one is taken (`Worker::pick`). If the budget permits no new copy, a row takes a copy
//! within the window, and `Steps::between_warps` counts it. The window is that of the [`Goal`].
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
    /// Number of accesses done, plus a window between blocks: the time at which a copy is used.
    now: u64,
    access: Access,
    pub(super) steps: Steps,
}

/// The current access. Each item needs a bank. Items are rows, or, for reads, different values.
#[derive(Debug, Default)]
struct Access {
    values: Vec<u32>,
    /// Per item, the banks with a copy that may be used.
    banks: Vec<u32>,
    /// The item of each row.
    item_of: Vec<usize>,
    /// The slot of each item.
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

    /// Keeps the items for which `keep` returns true.
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
            // Lanes that read one value share a copy (§3.2). Lanes that write it need one copy each.
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

    /// Looks up the banks that each item may use, with or without the window.
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

    /// Chooses a bank for every item. Items that find none when the budget is spent take further rounds.
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
        // All relocations precede all new copies: a copy in a bank that another item could have used would
        // cost another copy.
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

    /// Assigns an empty bank of one of its copies to an item, if such a bank exists.
    fn put(&self, matching: &mut Matching, item: usize, order: BankOrder) -> bool {
        let free = self.usable(item) & matching.empty();
        if free != 0 {
            matching.put(item, self.pick(order, item, free));
        }
        free != 0
    }

    /// Assigns banks to items by relocating others.
    fn relocate_each(
        &mut self,
        waiting: &mut Items,
        matching: &mut Matching,
        order: BankOrder,
        banks: fn(&Self, usize) -> u32,
    ) {
        // If all copies together reach no empty bank, the search is skipped (§3.1, the first reason to fail).
        let reached = (0..self.access.values.len()).fold(0, |all, item| all | banks(self, item));
        waiting
            .retain(|item| reached & matching.empty() == 0 || !self.relocate(matching, item, order, banks));
    }

    /// Assigns a bank to an item by relocating others, if possible.
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

    /// Creates a copy for an item, if the budget permits, and assigns its bank to the item.
    fn create(&mut self, matching: &mut Matching, item: usize, order: BankOrder) -> bool {
        // Copies that were created for other items, here or by other workers, may suffice.
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

    /// Chooses one of several banks for an item: that of the least recently used copy (§3.3), or, without a
    /// window, the first.
    fn pick(&self, order: BankOrder, item: usize, banks: u32) -> u32 {
        let mut banks = order.of(banks);
        let bank = if self.window == 0 {
            banks.next()
        } else {
            banks.min_by_key(|&bank| self.copies.last_use(self.access.values[item], bank))
        };
        bank.unwrap_or(0)
    }

    /// Figure 7's variant: a separate copy for every item, in any bank.
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
