//! The owner of a device's memory.

use super::ablation::{Ablated, Ablation, Ablations};
use super::error::RegionError;
use super::info::{RegionInfo, RegionKind};
use super::page::Page;
use super::region::{Part, Region};
use super::replacement::{Candidate, Replacement};
use super::spill::{HostBudget, Spill, SpillCounts, SpillFiles};
use super::working::{Use, Working, WorkingRegion};
use super::{Source, Turns};
use crate::{Holder, Identity};
use bytemuck::Pod;
use galatea_device::{Device, DeviceBuffer, DeviceError, HostView, Stream};
use parking_lot::Mutex;
use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Bytes of a page of a working region (MultiQx §4.1).
const WORKING_PAGE: u64 = 8 << 20;

/// See [the module](super).
#[derive(Debug)]
pub struct MemoryManager {
    pub(super) device: Device,
    pub(super) regions: Arc<Regions>,
    turns: Turns,
    pub(super) working: Arc<Working>,
    /// Working memory of an earlier query that the next may use as it is.
    spare: Mutex<Option<Box<dyn Any + Send>>>,
}

/// The victim of an eviction.
#[derive(Debug, Clone, Copy)]
enum Victim {
    /// A page of the region of that key.
    Cached(usize),
    /// The working region of that number.
    Working(u64),
}

/// The part that identities of sources hold weakly, to tell it that one was dropped.
#[derive(Debug)]
pub(super) struct Regions {
    /// The stream that pages are allocated and freed in.
    pub(super) home: Stream,
    pub(super) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// By the address of the source's identity, which the region's weak reference keeps from being used
    /// again.
    pub(super) regions: HashMap<usize, Region>,
    /// Pages that were made, by the address of the identity of their originals.
    pub(super) pages: HashMap<usize, (Weak<Identity>, Weak<Page>)>,
    pub(super) policy: Replacement,
    /// Scans so far.
    pub(super) now: u64,
    /// Regions made so far.
    pub(super) made: u64,
    pub(super) random: u64,
    pub(super) evicted: u64,
    /// Times that pages have left device memory, evicted or with their source.
    departures: u64,
    /// Bytes of all pages.
    pub(super) page_bytes: Arc<AtomicU64>,
    pub(super) ablated: Arc<Ablated>,
}

impl Holder for Regions {
    fn let_go(&self) {
        let mut gone = Vec::new();
        let mut state = self.state.lock();
        let State { regions, pages, .. } = &mut *state;
        regions.retain(|_, region| region.let_go(&self.home, &mut gone));
        pages.retain(|_, (original, _)| original.strong_count() > 0);
        state.departures += u64::from(!gone.is_empty());
        drop(state);
        // Device memory is freed after the lock.
        drop(gone);
    }
}

pub(super) fn key(identity: &Arc<Identity>) -> usize {
    Arc::as_ptr(identity).addr()
}

impl State {
    /// The regions that could give up a page.
    fn candidates(&self) -> impl Iterator<Item = Candidate<usize>> {
        let regions = self.regions.iter();
        let written = self.ablated.has(Ablation::NoAccess);
        regions.filter_map(move |(key, region)| region.candidate(*key, self.now, written))
    }

    /// Evicts one page for a scan of that worth; whether there was one.
    pub(super) fn evict_for(&mut self, home: &Stream, scan: f64) -> Result<bool, DeviceError> {
        let candidates = self.candidates().collect();
        let victim = self.policy.victim(candidates, &mut self.random, Some(scan));
        victim.map_or(Ok(false), |victim| self.evict(home, victim))
    }

    /// Evicts a page of a region, or all of it where regions go as a whole; whether there was one.
    fn evict(&mut self, home: &Stream, victim: usize) -> Result<bool, DeviceError> {
        let Some(region) = self.regions.get_mut(&victim) else {
            return Ok(false);
        };
        let given = region.give(home, &self.ablated)?;
        self.evicted += given;
        self.departures += u64::from(given > 0);
        Ok(given > 0)
    }

    /// The page of an original, if it is in device memory.
    pub(super) fn page_of(&self, original: *const Identity) -> Option<Arc<Page>> {
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
            working: Arc::new(Working::new(Spill::new(device, WORKING_PAGE))),
            spare: Mutex::default(),
        })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The queries that run, and those that wait.
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

    /// The parts that are left out.
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
    pub(super) fn evicts(&self) -> bool {
        !self.ablations().has(Ablation::Naive)
    }

    /// Tries to allocate working memory, evicting pages as long as the device is full. `None`: it is, with
    /// everything evicted that is not pinned.
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

    /// Gives up spare working memory, or else one page or one parked working region, by the policy; whether
    /// there was any.
    ///
    /// # Errors
    /// The device's.
    pub fn evict_one(&self) -> Result<bool, DeviceError> {
        let spare = self.spare.lock().take();
        if spare.is_some() {
            return Ok(true);
        }
        let mut stay = HashSet::new();
        loop {
            let parked = self.working.candidates().into_iter();
            let parked: Vec<_> = parked
                .filter(|candidate| !stay.contains(&candidate.key))
                .map(|candidate| candidate.with(Victim::Working(candidate.key)))
                .collect();
            let mut guard = self.regions.state.lock();
            let state = &mut *guard;
            let pages = state.candidates();
            let all = pages
                .map(|candidate| candidate.with(Victim::Cached(candidate.key)))
                .chain(parked)
                .collect();
            match state.policy.victim(all, &mut state.random, None) {
                None => return Ok(false),
                Some(Victim::Cached(region)) => return state.evict(&self.regions.home, region),
                Some(Victim::Working(region)) => {
                    drop(guard);
                    if self.working.evict(region)? {
                        return Ok(true);
                    }
                    // Its owner has come back, or the host has no place for it.
                    stay.insert(region);
                }
            }
        }
    }

    /// A working region over a buffer, which its owner holds until it parks it.
    pub fn working<T: Pod>(&self, owner: u64, name: &str, buffer: DeviceBuffer<T>) -> WorkingRegion<T> {
        self.working.adopt(owner, name, buffer)
    }

    /// Holds regions for a launch: all of them, or none (MultiQx §4.1). `false`: they do not all fit.
    ///
    /// # Errors
    /// The device's; content that cannot be read back.
    pub fn grant(&self, uses: &mut [Use<'_>]) -> Result<bool, RegionError> {
        let held: Vec<bool> = uses.iter().map(Use::is_held).collect();
        for at in 0..uses.len() {
            if !uses[at].hold(&|| self.evict_one())? {
                let before = uses.iter_mut().zip(held).take(at);
                before.filter(|(_, held)| !held).for_each(|(used, _)| used.park());
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sets where the content of working regions is moved to; by default host memory, without a limit.
    pub fn set_spill(&self, budget: Arc<dyn HostBudget>, files: Arc<dyn SpillFiles>) {
        self.working.spill().set_places(budget, files);
    }

    /// Bytes of a page of working regions made from now on; 8 MiB unless set.
    pub fn set_working_page(&self, bytes: u64) {
        self.working.spill().set_page_bytes(bytes);
    }

    /// Bytes that working regions have been moved by.
    pub fn spilled(&self) -> SpillCounts {
        self.working.spill().counts()
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

    /// A region with the pages of it that other regions have.
    pub(super) fn new_region<S: Source>(&self, state: &State, source: &S) -> Region {
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
                    // A page of several regions is freed when all have given it up.
                    let least = shared.entry(Arc::as_ptr(page)).or_insert(bytes);
                    *least = bytes.min(*least);
                }
            }
        }
        alone + shared.values().sum::<u64>()
    }

    /// Times that pages of cached regions have left device memory so far: what was found there is still there
    /// as long as the number is the same.
    pub fn departures(&self) -> u64 {
        self.regions.state.lock().departures
    }

    /// Pages and working regions evicted so far.
    pub fn evicted(&self) -> u64 {
        self.regions.state.lock().evicted + self.working.evicted()
    }

    /// Gives up everything that is not pinned.
    ///
    /// # Errors
    /// The device's.
    pub fn clear(&self) -> Result<(), DeviceError> {
        while self.evict_one()? {}
        self.working.spill().clear();
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
                    kind: RegionKind::Cached,
                    owner: None,
                    bytes: region.parts.iter().map(|part| part.bytes).sum(),
                    device_bytes: region.bytes_here(),
                    pages: region.parts.len(),
                    pages_device: here,
                    pages_host: region.parts.len(),
                    pages_both: here,
                    pages_loading: region.pages().count() - here,
                    uses: region.uses,
                    idle: now - region.last,
                }
            })
            .collect();
        drop(state);
        infos.extend(self.working.infos());
        infos.sort_by(|a, b| (b.bytes, &a.name).cmp(&(a.bytes, &b.name)));
        infos
    }
}
