//! The owner of a device's memory.

use super::ablation::{Ablated, Ablation, Ablations};
use super::page::{Page, PagePin};
use super::region::{Part, Region};
use super::replacement::Replacement;
use super::{Source, Turns};
use crate::{Holder, Identity};
use galatea_device::{Device, DeviceBuffer, DeviceError, Event, HostView, MemoryBudget, Stream};
use parking_lot::Mutex;
use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Part of the budget that pages leave to working memory, and its bytes at most: what a launch takes that is small (tables of chunks,
/// counters) shall not have to evict.
const RESERVE: u64 = 32;
const MOST_RESERVE: u64 = 64 << 20;

/// See [the module](super).
#[derive(Debug)]
pub struct MemoryManager {
    device: Device,
    regions: Arc<Regions>,
    turns: Turns,
    /// Working memory of an earlier query that the next may use as it is.
    spare: Mutex<Option<Box<dyn Any + Send>>>,
}

/// What the identities of sources hold weakly, to tell it that one is gone.
#[derive(Debug)]
struct Regions {
    /// The stream that pages are allocated and freed in.
    home: Stream,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By the address of the source's identity, which the region's weak reference keeps from being used again.
    regions: HashMap<usize, Region>,
    /// Pages that were made, by the address of the identity of what they copy.
    pages: HashMap<usize, (Weak<Identity>, Weak<Page>)>,
    policy: Replacement,
    /// Scans so far.
    now: u64,
    /// Regions made so far.
    made: u64,
    random: u64,
    evicted: u64,
    /// Bytes of all pages.
    page_bytes: Arc<AtomicU64>,
    ablated: Arc<Ablated>,
}

/// What is known of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionInfo {
    /// What it copies.
    pub name: String,
    /// Bytes of all of it.
    pub bytes: u64,
    /// Bytes in device memory.
    pub device_bytes: u64,
    /// Number of its pages.
    pub pages: usize,
    /// Pages whose content is in device memory.
    pub pages_device: usize,
    /// Pages that have device memory, but not their content yet.
    pub pages_loading: usize,
    /// Scans that have used it.
    pub uses: u64,
    /// Scans of whatever region since.
    pub idle: u64,
}

impl Holder for Regions {
    fn let_go(&self) {
        let mut gone = Vec::new();
        let mut state = self.state.lock();
        let State { regions, pages, .. } = &mut *state;
        regions.retain(|_, region| region.let_go(&self.home, &mut gone));
        pages.retain(|_, (original, _)| original.strong_count() > 0);
        drop(state);
        // Device memory is freed after the lock.
        drop(gone);
    }
}

fn key(identity: &Arc<Identity>) -> usize {
    Arc::as_ptr(identity).addr()
}

impl State {
    /// Evicts one page; whether there was one.
    fn evict(&mut self, home: &Stream, scan: Option<f64>) -> Result<bool, DeviceError> {
        let regions = self.regions.iter().map(|(key, region)| (*key, region));
        let written = self.ablated.has(Ablation::NoAccess);
        let victim = (self.policy).victim(regions, self.now, &mut self.random, scan, written);
        let Some(region) = victim.and_then(|victim| self.regions.get_mut(&victim)) else {
            return Ok(false);
        };
        let given = region.give(home, &self.ablated)?;
        self.evicted += given;
        Ok(given > 0)
    }

    /// The page of an original, if it is in device memory.
    fn page_of(&self, original: *const Identity) -> Option<Arc<Page>> {
        self.pages.get(&original.addr())?.1.upgrade()
    }
}

impl MemoryManager {
    /// The manager of a device's memory, within the device's budget.
    ///
    /// # Errors
    /// The device's.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(Self {
            device: device.clone(),
            regions: Arc::new(Regions {
                home: device.stream()?,
                state: Mutex::default(),
            }),
            turns: Turns::default(),
            spare: Mutex::default(),
        })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Who runs, and who waits.
    pub fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Changes the policy of replacement.
    pub fn set_replacement(&self, policy: Replacement) {
        self.regions.state.lock().policy = policy;
    }

    /// Leaves out parts of the manager, for experiments; none of them by default.
    pub fn set_ablations(&self, ablations: Ablations) {
        self.ablated().set(&self.device, ablations);
    }

    /// What is left out.
    pub fn ablations(&self) -> Ablations {
        self.ablated().get()
    }

    /// The bytes of a view in a staging buffer, see [`Ablation::Copied`].
    ///
    /// # Errors
    /// There is no host memory for it.
    pub fn staged(&self, view: &HostView) -> Result<HostView, DeviceError> {
        self.ablated().staged(view)
    }

    fn ablated(&self) -> Arc<Ablated> {
        Arc::clone(&self.regions.state.lock().ablated)
    }

    /// Whether pages may be evicted for others.
    fn evicts(&self) -> bool {
        !self.ablations().has(Ablation::Naive)
    }

    /// Tries to allocate working memory, evicting pages as long as the device is full. `None`: it is, with everything evicted
    /// that nobody has pinned.
    ///
    /// # Errors
    /// Those of `attempt` other than memory, and the device's.
    pub fn making_room<T, E: From<DeviceError>>(
        &self,
        mut attempt: impl FnMut() -> Result<T, E>,
        is_full: impl Fn(&E) -> bool,
    ) -> Result<Option<T>, E> {
        loop {
            match attempt() {
                Err(error) if is_full(&error) => {
                    if !self.evicts() || !self.evict_one()? {
                        return Ok(None);
                    }
                }
                outcome => return outcome.map(Some),
            }
        }
    }

    /// Working memory of so many bytes, as [`Self::making_room`].
    ///
    /// # Errors
    /// The device's, other than that it is full.
    pub fn allocate(&self, stream: &Stream, bytes: u64) -> Result<Option<DeviceBuffer<u8>>, DeviceError> {
        let attempt = || {
            let buffer = self.device.alloc::<u8>(stream, bytes.max(1) as usize)?;
            Ok(buffer.assume_written())
        };
        self.making_room(attempt, DeviceError::is_out_of_memory)
    }

    /// Gives up spare working memory, or else one page; whether there was something.
    ///
    /// # Errors
    /// The device's.
    pub fn evict_one(&self) -> Result<bool, DeviceError> {
        let spare = self.spare.lock().take();
        if spare.is_some() {
            return Ok(true);
        }
        self.regions.state.lock().evict(&self.regions.home, None)
    }

    /// Keeps working memory for the next query that can use it.
    pub fn keep_spare<T: Any + Send>(&self, spare: T) {
        *self.spare.lock() = Some(Box::new(spare));
    }

    /// The spare working memory, if it is of that type and fits.
    pub fn take_spare<T: Any + Send>(&self, fits: impl FnOnce(&T) -> bool) -> Option<T> {
        let mut kept = self.spare.lock();
        let taken = kept.take_if(|spare| spare.downcast_ref::<T>().is_some_and(fits))?;
        taken.downcast::<T>().ok().map(|spare| *spare)
    }

    /// Begins a scan over regions: makes those that are not known yet, and counts their use.
    pub fn scan<'s, S: Source + 's>(&self, sources: impl Iterator<Item = &'s S>) -> Scan<'_> {
        let mut state = self.regions.state.lock();
        state.now += 1;
        let now = state.now;
        let mut regions = Vec::new();
        for source in sources {
            let key = key(source.identity());
            if !state.regions.contains_key(&key) {
                state.made += 1;
                let region = self.new_region(&state, source);
                state.regions.insert(key, region);
            }
            if let Some(region) = state.regions.get_mut(&key) {
                region.touch(now);
                region.scans += 1;
                regions.push((key, region.generation));
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

    /// A region with the pages of it that other regions have.
    fn new_region<S: Source>(&self, state: &State, source: &S) -> Region {
        let holder: Arc<dyn Holder> = Arc::clone(&self.regions) as Arc<dyn Holder>;
        let holder = Arc::downgrade(&holder);
        source.identity().tell(&holder);
        let parts = (0..source.pages()).map(|index| {
            let identity = source.page(index);
            identity.tell(&holder);
            Part {
                source: Arc::downgrade(identity),
                bytes: source.page_bytes(index),
                page: state.page_of(Arc::as_ptr(identity)),
            }
        });
        Region::new(
            Arc::downgrade(source.identity()),
            source.name().to_owned(),
            state.made,
            parts.collect(),
        )
    }

    /// Whether all pages of these numbers have device memory.
    pub fn holds<S: Source>(&self, source: &S, pages: &[usize]) -> bool {
        let state = self.regions.state.lock();
        let region = state.regions.get(&key(source.identity()));
        region.is_some_and(|region| pages.iter().all(|page| region.parts[*page].page.is_some()))
    }

    /// Bytes of a source that are in device memory.
    pub fn bytes_of<S: Source>(&self, source: &S) -> u64 {
        let state = self.regions.state.lock();
        let region = state.regions.get(&key(source.identity()));
        region.map_or(0, Region::bytes_here)
    }

    /// Bytes of pages in device memory.
    pub fn bytes(&self) -> u64 {
        let state = self.regions.state.lock();
        let pages = state.regions.values().flat_map(Region::pages);
        let distinct: HashMap<_, _> = pages.map(|page| (Arc::as_ptr(page), page.bytes())).collect();
        distinct.values().sum()
    }

    /// The same, without looking at each: pages that are pinned and belong to no region any more count too.
    pub fn page_bytes(&self) -> u64 {
        self.regions.state.lock().page_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that evictions could free now.
    pub fn evictable(&self) -> u64 {
        let state = self.regions.state.lock();
        let (mut alone, mut shared) = (0, HashMap::new());
        for region in state.regions.values() {
            for page in region.pages() {
                let bytes = match region.pins == 0 && !page.is_pinned() {
                    true => page.bytes(),
                    false => 0,
                };
                if Arc::strong_count(page) == 1 {
                    alone += bytes;
                } else {
                    // A page of several regions goes when all have given it up.
                    let least = shared.entry(Arc::as_ptr(page)).or_insert(bytes);
                    *least = bytes.min(*least);
                }
            }
        }
        alone + shared.values().sum::<u64>()
    }

    /// Pages evicted so far.
    pub fn evicted(&self) -> u64 {
        self.regions.state.lock().evicted
    }

    /// Gives up everything that nobody has pinned.
    ///
    /// # Errors
    /// The device's.
    pub fn clear(&self) -> Result<(), DeviceError> {
        while self.evict_one()? {}
        Ok(())
    }

    /// The regions there are, largest first.
    pub fn regions(&self) -> Vec<RegionInfo> {
        let state = self.regions.state.lock();
        let now = state.now;
        let mut infos: Vec<_> = (state.regions.values())
            .map(|region| {
                let here = region.pages().filter(|page| page.is_here()).count();
                RegionInfo {
                    name: region.name.clone(),
                    bytes: region.parts.iter().map(|part| part.bytes).sum(),
                    device_bytes: region.bytes_here(),
                    pages: region.parts.len(),
                    pages_device: here,
                    pages_loading: region.pages().count() - here,
                    uses: region.uses,
                    idle: now - region.last,
                }
            })
            .collect();
        drop(state);
        infos.sort_by(|a, b| (b.bytes, &a.name).cmp(&(a.bytes, &b.name)));
        infos
    }
}

/// Regions that one run reads.
#[derive(Debug)]
pub struct Scan<'m> {
    manager: &'m MemoryManager,
    regions: Vec<(usize, u64)>,
    pinned: bool,
    /// Regions that it does not read and pins all the same, see [`Ablation::NoReference`].
    referenced: Vec<usize>,
    /// Bytes that pages made for this scan leave free.
    left: u64,
}

impl Scan<'_> {
    /// Keeps all pages of the regions where they are until it is [released](Self::release), launched or dropped; names the state
    /// of their addresses.
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

    /// Evicts pages until there is what pages leave free; the scan's own too.
    ///
    /// # Errors
    /// The device's.
    pub fn make_reserve(&self) -> Result<(), DeviceError> {
        let manager = self.manager;
        while manager.device.budget().available() < self.reserve()
            && manager.evicts()
            && manager.evict_one()?
        {}
        Ok(())
    }

    /// Where launches reference whatever is in device memory ([`Ablation::NoReference`]): pins all of it, as [`Self::pin`] does.
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

    /// Whether a page of region number `region` has device memory now; it may go unless it is pinned.
    pub fn has(&self, region: usize, page: usize) -> bool {
        let state = self.manager.regions.state.lock();
        let found = state.regions.get(&self.regions[region].0);
        found.is_some_and(|region| region.parts[page].page.is_some())
    }

    /// Makes pages only as long as so many bytes stay free.
    pub fn leave(&mut self, bytes: u64) {
        self.left = bytes;
    }

    /// Bytes that pages leave free.
    fn reserve(&self) -> u64 {
        let limit = self.manager.device.budget().limit();
        (limit / RESERVE).min(MOST_RESERVE).max(self.left)
    }

    /// Bytes of pages there is room for, once everything is evicted that can be.
    pub fn room(&self) -> u64 {
        let manager = self.manager;
        let evictable = if manager.evicts() { manager.evictable() } else { 0 };
        (manager.device.budget().available() + evictable).saturating_sub(self.reserve())
    }

    /// Names the state of the regions' addresses: as long as it is the same, no page has gone.
    pub fn addresses(&self) -> &[(usize, u64)] {
        &self.regions
    }

    /// A page of region number `region`, in device memory from now on, if there is or can be made room for it.
    ///
    /// # Errors
    /// The device's.
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
        // Another region may have made it since this one is known.
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
            if state.ablated.has(Ablation::Naive) || !state.evict(home, Some(worth))? {
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

    /// Notes a launch that reads pages of the regions: memory of pages that go is freed behind it.
    pub fn used(&self, launch: &Arc<Event>) {
        let mut state = self.manager.regions.state.lock();
        for (key, _) in &self.regions {
            if let Some(region) = state.regions.get_mut(key) {
                region.used_by(launch);
            }
        }
    }

    /// Lets pages go that are not pinned one by one.
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
        // A source may have gone meanwhile.
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
                    // A failure is found by whatever uses the device next; the page is still there then.
                    while matches!(region.give(home, &state.ablated), Ok(given) if given > 0) {}
                }
            }
        }
        drop(guard);
        if dead {
            // Its source went while it was in use.
            self.manager.regions.let_go();
        }
    }
}
