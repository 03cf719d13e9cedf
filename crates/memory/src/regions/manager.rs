//! The manager of a device's memory.

use super::ablation::{Ablated, Ablation, Ablations};
use super::error::RegionError;
use super::info::{RegionInfo, RegionKind};
use super::page::Page;
use super::region::{Part, Region};
use super::replacement::{Candidate, Replacement};
use super::spill::{HostBudget, Spill, SpillCounts, SpillFiles};
use super::working::{Use, Working, WorkingRegion};
use super::{AdmissionController, Source};
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
    admission: AdmissionController,
    pub(super) working: Arc<Working>,
    /// Working memory of an earlier query that the next query may reuse.
    spare: Mutex<Option<Box<dyn Any + Send>>>,
}

/// The victim of an eviction.
#[derive(Debug, Clone, Copy)]
enum Victim {
    /// A page of the region with that key.
    Cached(usize),
    /// The working region with that number.
    Working(u64),
}

/// The part that identities of sources reference weakly, for notifications that a source was dropped.
#[derive(Debug)]
pub(super) struct Regions {
    /// The stream of allocations and frees of pages.
    pub(super) home: Stream,
    pub(super) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Regions by the address of the source's identity. The region's weak reference prevents reuse of the
    /// address.
    pub(super) regions: HashMap<usize, Region>,
    /// Created pages, by the address of the identity of their originals.
    pub(super) pages: HashMap<usize, (Weak<Identity>, Weak<Page>)>,
    pub(super) policy: Replacement,
    /// Number of scans so far.
    pub(super) now: u64,
    /// Number of regions created so far.
    pub(super) made: u64,
    pub(super) random: u64,
    pub(super) evicted: u64,
    /// Number of times that pages have left device memory, by eviction or with their source.
    eviction_epoch: u64,
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
        state.eviction_epoch += u64::from(!gone.is_empty());
        drop(state);
        // Device memory is freed after the lock is released.
        drop(gone);
    }
}

pub(super) fn key(identity: &Arc<Identity>) -> usize {
    Arc::as_ptr(identity).addr()
}

impl State {
    /// The regions that can free a page.
    fn candidates(&self) -> impl Iterator<Item = Candidate<usize>> {
        let regions = self.regions.iter();
        let written = self.ablated.has(Ablation::NoAccess);
        regions.filter_map(move |(key, region)| region.candidate(*key, self.now, written))
    }

    /// Evicts one page for a scan of that worth. Returns whether a page was evicted.
    pub(super) fn evict_for(&mut self, home: &Stream, scan: f64) -> Result<bool, DeviceError> {
        let candidates = self.candidates().collect();
        let victim = self.policy.victim(candidates, &mut self.random, Some(scan));
        victim.map_or(Ok(false), |victim| self.evict(home, victim))
    }

    /// Evicts a page of a region, or the whole region if regions are evicted as a whole. Returns whether
    /// anything was evicted.
    fn evict(&mut self, home: &Stream, victim: usize) -> Result<bool, DeviceError> {
        let Some(region) = self.regions.get_mut(&victim) else {
            return Ok(false);
        };
        let given = region.give(home, &self.ablated)?;
        self.evicted += given;
        self.eviction_epoch += u64::from(given > 0);
        Ok(given > 0)
    }

    /// The page of an original, if it is in device memory.
    pub(super) fn page_of(&self, original: *const Identity) -> Option<Arc<Page>> {
        self.pages.get(&original.addr())?.1.upgrade()
    }
}

impl MemoryManager {
    /// Creates the manager of a device's memory, within the device's budget.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(Self {
            device: device.clone(),
            regions: Arc::new(Regions {
                home: device.stream()?,
                state: Mutex::default(),
            }),
            admission: AdmissionController::default(),
            working: Arc::new(Working::new(Spill::new(device, WORKING_PAGE))),
            spare: Mutex::default(),
        })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The admission of queries.
    pub fn admission(&self) -> &AdmissionController {
        &self.admission
    }

    /// Changes the replacement policy.
    pub fn set_replacement(&self, policy: Replacement) {
        self.regions.state.lock().policy = policy;
    }

    /// Disables parts of the manager, for experiments. By default none is disabled.
    pub fn set_ablations(&self, ablations: Ablations) {
        self.ablated().set(&self.device, ablations);
    }

    /// The disabled parts.
    pub fn ablations(&self) -> Ablations {
        self.ablated().get()
    }

    /// Copies the bytes of a view to a staging buffer, see [`Ablation::Copied`].
    ///
    /// # Errors
    /// If no host memory is available.
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

    /// Tries to allocate working memory, and evicts pages as long as the device is full. `None` if it is
    /// still full after everything that is not pinned was evicted.
    ///
    /// # Errors
    /// Those of `attempt` except for out of memory, and the errors of the device.
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

    /// Allocates working memory of that size, like [`Self::making_room`].
    ///
    /// # Errors
    /// The errors of the device, except that it is full.
    pub fn allocate(&self, stream: &Stream, bytes: u64) -> Result<Option<DeviceBuffer<u8>>, DeviceError> {
        let attempt = || {
            let buffer = self.device.alloc::<u8>(stream, bytes.max(1) as usize)?;
            Ok(buffer.assume_written())
        };
        self.making_room(attempt, DeviceError::is_out_of_memory)
    }

    /// Frees spare working memory, or else evicts one page or one parked working region, by the policy.
    /// Returns whether anything was freed.
    ///
    /// # Errors
    /// The errors of the device.
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
                    // Its owner has taken it back, or the host has no room for it.
                    stay.insert(region);
                }
            }
        }
    }

    /// Creates a working region over a buffer. Its owner holds it until it parks it.
    pub fn working<T: Pod>(&self, owner: u64, name: &str, buffer: DeviceBuffer<T>) -> WorkingRegion<T> {
        self.working.adopt(owner, name, buffer)
    }

    /// Holds regions for a launch: all of them, or none (MultiQx §4.1). Returns `false` if they do not all
    /// fit.
    ///
    /// # Errors
    /// The errors of the device; content that cannot be read back.
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

    /// Sets the places for the content of evicted working regions; by default host memory, without a limit.
    pub fn set_spill(&self, budget: Arc<dyn HostBudget>, files: Arc<dyn SpillFiles>) {
        self.working.spill().set_places(budget, files);
    }

    /// Sets the bytes of a page of working regions created from now on; 8 MiB by default.
    pub fn set_working_page(&self, bytes: u64) {
        self.working.spill().set_page_bytes(bytes);
    }

    /// Bytes of working regions that have been moved.
    pub fn spilled(&self) -> SpillCounts {
        self.working.spill().counts()
    }

    /// Keeps working memory for reuse by the next query.
    pub fn keep_spare<T: Any + Send>(&self, spare: T) {
        *self.spare.lock() = Some(Box::new(spare));
    }

    /// Takes the spare working memory, if it has that type and fits.
    pub fn take_spare<T: Any + Send>(&self, fits: impl FnOnce(&T) -> bool) -> Option<T> {
        let mut kept = self.spare.lock();
        let taken = kept.take_if(|spare| spare.downcast_ref::<T>().is_some_and(fits))?;
        taken.downcast::<T>().ok().map(|spare| *spare)
    }

    /// Creates a region with those of its pages that other regions already have.
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

    /// Bytes of a source in device memory.
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

    /// Like [`Self::bytes`], without visiting each page: pinned pages that no longer belong to a region
    /// count, too.
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
                    // A page of several regions is freed when all of them have released it.
                    let least = shared.entry(Arc::as_ptr(page)).or_insert(bytes);
                    *least = bytes.min(*least);
                }
            }
        }
        alone + shared.values().sum::<u64>()
    }

    /// Number of times that pages of cached regions have left device memory so far: pages that were resident
    /// are still resident while this number is unchanged.
    pub fn eviction_epoch(&self) -> u64 {
        self.regions.state.lock().eviction_epoch
    }

    /// Number of pages and working regions evicted so far.
    pub fn evicted(&self) -> u64 {
        self.regions.state.lock().evicted + self.working.evicted()
    }

    /// Evicts everything that is not pinned.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn clear(&self) -> Result<(), DeviceError> {
        while self.evict_one()? {}
        self.working.spill().clear();
        Ok(())
    }

    /// All regions, largest first.
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
                    pages_disk: 0,
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
