//! A scan: the pages that one run reads.

use super::Source;
use super::ablation::Ablation;
use super::manager::{MemoryManager, key};
use super::page::{Page, PagePin};
use super::replacement::weight;
use crate::Holder;
use galatea_device::{DeviceError, Event, MemoryBudget};
use std::sync::{Arc, Weak};

/// Inverse share of the budget that pages leave free for working memory, and its maximum in bytes: small
/// allocations of a launch (tables of chunks, counters) should not have to evict.
const RESERVE: u64 = 32;
const MOST_RESERVE: u64 = 64 << 20;

/// The regions that one run reads.
#[derive(Debug)]
pub struct Scan<'m> {
    pub(super) manager: &'m MemoryManager,
    pub(super) regions: Vec<(usize, u64)>,
    pub(super) pinned: bool,
    /// Regions that it does not read but pins nevertheless, see [`Ablation::NoReference`].
    pub(super) referenced: Vec<usize>,
    /// Bytes that pages allocated for this scan leave free.
    pub(super) left: u64,
}

impl MemoryManager {
    /// Begins a scan over regions: creates the regions that do not exist yet, and counts their use.
    pub fn scan<'s, S: Source + 's>(&self, sources: impl Iterator<Item = &'s S>) -> Scan<'_> {
        let mut state = self.regions.state.lock();
        state.now += 1;
        let now = state.now;
        self.working.set_clock(now);
        let mut regions = Vec::new();
        let mut bytes = 0;
        for source in sources {
            let key = key(source.identity());
            if !state.regions.contains_key(&key) {
                state.made += 1;
                let region = self.new_region(&state, source);
                state.regions.insert(key, region);
            }
            if let Some(region) = state.regions.get_mut(&key) {
                region.scans += 1;
                bytes += region.bytes;
                regions.push((key, region.generation));
            }
        }
        let weight = weight(bytes);
        for (key, _) in &regions {
            if let Some(region) = state.regions.get_mut(key) {
                region.touch(now, weight);
            }
        }
        Scan {
            manager: self,
            regions,
            pinned: false,
            referenced: Vec::new(),
            left: 0,
        }
    }
}

impl Scan<'_> {
    /// Pins all pages of the regions until the scan is [released](Self::release), launched or dropped.
    /// Returns the state of their addresses.
    pub fn pin(&mut self) -> &[(usize, u64)] {
        let mut state = self.manager.regions.state.lock();
        for (key, generation) in &mut self.regions {
            if let Some(region) = state.regions.get_mut(key) {
                region.pins += u32::from(!self.pinned);
                *generation = region.generation;
            }
        }
        self.pinned = true;
        &self.regions
    }

    /// Evicts pages, including the scan's own, until the reserve is free.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn make_reserve(&self) -> Result<(), DeviceError> {
        let manager = self.manager;
        while manager.device.budget().available() < self.reserve()
            && manager.evicts()
            && manager.evict_one()?
        {}
        Ok(())
    }

    /// Pins all device memory, like [`Self::pin`], if launches reference all of it
    /// ([`Ablation::NoReference`]).
    pub fn reference_all(&mut self) {
        let mut state = self.manager.regions.state.lock();
        if !state.ablated.has(Ablation::NoReference) || !self.referenced.is_empty() {
            return;
        }
        for (key, region) in &mut state.regions {
            if region.pages().next().is_some() {
                region.pins += 1;
                region.scans += 1;
                self.referenced.push(*key);
            }
        }
    }

    /// For each page of region number `region`, whether it has device memory now. It may be evicted unless it
    /// is pinned.
    pub fn present(&self, region: usize) -> Vec<bool> {
        let state = self.manager.regions.state.lock();
        let found = state.regions.get(&self.regions[region].0);
        let parts = found.map_or(&[][..], |region| &region.parts);
        parts.iter().map(|part| part.page.is_some()).collect()
    }

    /// Allocates pages only as long as this number of bytes stays free.
    pub fn leave(&mut self, bytes: u64) {
        self.left = bytes;
    }

    /// Bytes that pages leave free.
    pub fn reserve(&self) -> u64 {
        let limit = self.manager.device.budget().limit();
        (limit / RESERVE).min(MOST_RESERVE).max(self.left)
    }

    /// Bytes available for pages after evicting everything that can be evicted.
    pub fn room(&self) -> u64 {
        let manager = self.manager;
        let evictable = if manager.evicts() { manager.evictable() } else { 0 };
        (manager.device.budget().available() + evictable).saturating_sub(self.reserve())
    }

    /// The state of the regions' addresses: while it is unchanged, no page has been evicted.
    pub fn addresses(&self) -> &[(usize, u64)] {
        &self.regions
    }

    /// Returns a page of region number `region`, which is in device memory from now on; `None` if there is no
    /// room, even after evictions if `make_room` is set.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn page(&self, region: usize, page: usize, make_room: bool) -> Result<Option<PagePin>, DeviceError> {
        let key = self.regions[region].0;
        let home = &self.manager.regions.home;
        let mut guard = self.manager.regions.state.lock();
        let state = &mut *guard;
        let now = state.now;
        let Some(found) = state.regions.get(&key) else {
            return Ok(None);
        };
        let (part, worth) = (&found.parts[page], found.worth(now));
        if let Some(here) = &part.page {
            return Ok(Some(PagePin::new(here)));
        }
        let original = Weak::clone(&part.source);
        // Another region may have allocated it since this one was created.
        if let Some(here) = state.page_of(original.as_ptr()) {
            let pin = PagePin::new(&here);
            if let Some(region) = state.regions.get_mut(&key) {
                region.parts[page].page = Some(here);
            }
            return Ok(Some(pin));
        }
        if !make_room {
            return Ok(None);
        }
        let bytes = part.bytes.max(1);
        let (budget, reserve) = (self.manager.device.budget(), self.reserve());
        let buffer = loop {
            if budget.available() >= MemoryBudget::charge_of(bytes) + reserve {
                match self.manager.device.alloc::<u8>(home, bytes as usize) {
                    Ok(buffer) => break buffer.assume_written(),
                    Err(error) if error.is_out_of_memory() => {}
                    Err(error) => return Err(error),
                }
            }
            if state.ablated.has(Ablation::Naive) || !state.evict_for(home, worth)? {
                return Ok(None);
            }
        };
        let made: Arc<Page> = Arc::new(Page::new(buffer, &state.page_bytes));
        let pin = PagePin::new(&made);
        let known = (Weak::clone(&original), Arc::downgrade(&made));
        state.pages.insert(original.as_ptr().addr(), known);
        if let Some(region) = state.regions.get_mut(&key) {
            region.parts[page].page = Some(made);
        }
        Ok(Some(pin))
    }

    /// Records a launch that reads pages of the regions: memory of evicted pages is freed after it.
    pub fn used(&self, launch: &Arc<Event>) {
        let mut state = self.manager.regions.state.lock();
        for (key, _) in &self.regions {
            if let Some(region) = state.regions.get_mut(key) {
                region.used_by(launch);
            }
        }
    }

    /// Unpins pages that are not pinned one by one.
    pub fn release(&mut self) {
        self.unreference();
        if !std::mem::take(&mut self.pinned) {
            return;
        }
        let mut state = self.manager.regions.state.lock();
        for (key, _) in &self.regions {
            if let Some(region) = state.regions.get_mut(key) {
                region.pins -= 1;
            }
        }
    }
}

impl Scan<'_> {
    /// Undoes [`Self::reference_all`].
    fn unreference(&mut self) {
        if self.referenced.is_empty() {
            return;
        }
        let mut state = self.manager.regions.state.lock();
        for key in self.referenced.drain(..) {
            if let Some(region) = state.regions.get_mut(&key) {
                region.pins -= 1;
                region.scans -= 1;
            }
        }
        drop(state);
        // A source may have been dropped meanwhile.
        self.manager.regions.let_go();
    }
}

impl Drop for Scan<'_> {
    fn drop(&mut self) {
        self.release();
        let mut guard = self.manager.regions.state.lock();
        let state = &mut *guard;
        let naive = state.ablated.has(Ablation::Naive);
        let mut dead = false;
        for (key, _) in &self.regions {
            if let Some(region) = state.regions.get_mut(key) {
                region.scans -= 1;
                dead |= region.source.strong_count() == 0;
                if naive && region.scans == 0 {
                    let home = &self.manager.regions.home;
                    // The next use of the device reports a failure; the page is still resident then.
                    while matches!(region.give(home, &state.ablated), Ok(given) if given > 0) {}
                }
            }
        }
        drop(guard);
        if dead {
            // Its source was dropped while it was in use.
            self.manager.regions.let_go();
        }
    }
}
