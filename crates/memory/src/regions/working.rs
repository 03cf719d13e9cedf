//! Working regions: memory that queries write. It is moved to the host and back while no kernel uses it
//! (MultiQx §4).
//!
//! ```text
//!   let mut table = manager.working(owner, "group table", buffer);     held: only the owner can access it
//!   kernel.launch(stream, InOut(&mut table), ...);
//!   table.park();                                                     other queries may evict it
//!   if manager.grant(&mut [table.used(Access::ReadWrite)])? { ... }   held again: all or none
//! ```
//!
//! A region that its owner holds is pinned: the manager cannot access its memory. Between launches the owner
//! may park it. Then a query that finds the device full evicts it: pages with their newest content on the
//! device are copied to pinned host memory, or to a file if the host's budget has no room, and the device
//! memory is freed after the copies in the order of the owner's stream. Only evictions to files block other
//! threads. An eviction stops between two pages if the owner takes the region back or drops it.
//!
//! Loads and copies follow the access that the next launch declares: a region that it writes is not loaded,
//! one that it only reads leaves the copy on the host valid, so that evicting the region again moves no data
//! (the advice of MultiQx §4.1, by types).

use super::content::{Content, NOBODY, PageState, Parked, Shared};
use super::error::RegionError;
use super::info::RegionInfo;
use super::replacement::Candidate;
use super::spill::Spill;
use bytemuck::Pod;
use galatea_device::{Access, DeviceBuffer, DeviceError, Stream};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// All working regions of a device.
pub(super) struct Working {
    spill: Spill,
    regions: Mutex<BTreeMap<u64, Arc<dyn Parked>>>,
    next: AtomicU64,
    /// Number of scans so far: the clock of recency.
    clock: AtomicU64,
    evicted: AtomicU64,
}

impl Working {
    pub(super) fn new(spill: Spill) -> Self {
        Self {
            spill,
            regions: Mutex::default(),
            next: AtomicU64::new(0),
            clock: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
        }
    }

    pub(super) fn spill(&self) -> &Spill {
        &self.spill
    }

    pub(super) fn set_clock(&self, scans: u64) {
        self.clock.store(scans, Ordering::Relaxed);
    }

    pub(super) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    fn all(&self) -> Vec<Arc<dyn Parked>> {
        self.regions.lock().values().cloned().collect()
    }

    /// The regions that could be evicted.
    pub(super) fn candidates(&self) -> Vec<Candidate<u64>> {
        self.all()
            .iter()
            .filter_map(|region| region.candidate())
            .collect()
    }

    /// Evicts a region. Returns whether that freed memory.
    pub(super) fn evict(&self, number: u64) -> Result<bool, DeviceError> {
        let region = self.regions.lock().get(&number).cloned();
        let freed = region.map_or(Ok(0), |region| region.evict(&self.spill))?;
        self.evicted.fetch_add(u64::from(freed > 0), Ordering::Relaxed);
        Ok(freed > 0)
    }

    /// Facts about the regions, in the order of creation.
    pub(super) fn infos(&self) -> Vec<RegionInfo> {
        self.all().iter().map(|region| region.info()).collect()
    }

    /// Creates a region over a buffer, held by the caller.
    pub(super) fn adopt<T: Pod>(
        self: &Arc<Self>,
        owner: u64,
        name: &str,
        buffer: DeviceBuffer<T>,
    ) -> WorkingRegion<T> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let page_len = (self.spill.page_bytes() as usize / size_of::<T>().max(1)).max(1);
        let shared = Arc::new(Shared {
            number,
            owner: AtomicU64::new(owner),
            name: name.to_owned(),
            len: buffer.len(),
            page_len,
            home: buffer.stream().clone(),
            wanted: AtomicBool::new(false),
            content: Mutex::new(Content {
                buffer: None,
                pages: (0..buffer.len().div_ceil(page_len))
                    .map(|_| PageState::Device)
                    .collect(),
                file: None,
                held: true,
                last: 0,
                uses: 1,
            }),
        });
        let parked: Arc<dyn Parked> = Arc::clone(&shared) as Arc<dyn Parked>;
        self.regions.lock().insert(number, parked);
        WorkingRegion {
            managed: Some((Arc::clone(self), shared)),
            held: Some(buffer),
        }
    }
}

/// Device memory that its owner writes and may allow others to evict between launches. It dereferences to a
/// [`DeviceBuffer`] while it is held.
pub struct WorkingRegion<T: Pod> {
    /// `None` for memory that is never moved.
    managed: Option<(Arc<Working>, Arc<Shared<T>>)>,
    held: Option<DeviceBuffer<T>>,
}

impl Debug for Working {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Working")
            .field("regions", &self.infos())
            .field("spill", &self.spill)
            .finish_non_exhaustive()
    }
}

impl<T: Pod> Debug for WorkingRegion<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkingRegion")
            .field("name", &self.managed.as_ref().map(|(_, shared)| &shared.name))
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}

impl Debug for Use<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Use")
            .field("access", &self.access)
            .field("held", &self.is_held())
            .finish_non_exhaustive()
    }
}

impl<T: Pod> From<DeviceBuffer<T>> for WorkingRegion<T> {
    /// Memory that is never moved.
    fn from(buffer: DeviceBuffer<T>) -> Self {
        Self {
            managed: None,
            held: Some(buffer),
        }
    }
}

impl<T: Pod> Deref for WorkingRegion<T> {
    type Target = DeviceBuffer<T>;

    /// If the region is parked: its owner takes it back with
    /// [`MemoryManager::grant`](super::MemoryManager::grant) first.
    fn deref(&self) -> &DeviceBuffer<T> {
        self.held.as_ref().expect("a region is held where it is used")
    }
}

impl<T: Pod> DerefMut for WorkingRegion<T> {
    fn deref_mut(&mut self) -> &mut DeviceBuffer<T> {
        self.held.as_mut().expect("a region is held where it is used")
    }
}

impl<T: Pod> WorkingRegion<T> {
    /// Allows evictions until the region is granted again. Work on it must be queued on the stream of its
    /// allocation, or that stream must wait for the work.
    pub fn park(&mut self) {
        let Some((working, shared)) = &self.managed else {
            return;
        };
        if let Some(buffer) = self.held.take() {
            let mut content = shared.content.lock();
            content.buffer = Some(buffer);
            content.held = false;
            content.last = working.clock.load(Ordering::Relaxed);
            shared.wanted.store(false, Ordering::Release);
        }
    }

    /// Sets the query that owns the region, or none.
    pub fn set_owner(&mut self, owner: Option<u64>) {
        if let Some((_, shared)) = &self.managed {
            shared.owner.store(owner.unwrap_or(NOBODY), Ordering::Relaxed);
        }
    }

    /// Marks its content as not needed any more: neither evicting nor reloading copies anything.
    pub fn discard(&mut self) {
        if let Some((working, shared)) = &self.managed {
            shared.wanted.store(true, Ordering::Release);
            let mut content = shared.content.lock();
            let pages = content.pages.iter_mut();
            let old: Vec<_> = pages
                .map(|page| std::mem::replace(page, PageState::Nothing))
                .collect();
            content.file = None;
            drop(content);
            shared.wanted.store(false, Ordering::Release);
            old.into_iter().for_each(|page| page.give_up(working.spill()));
        }
    }

    /// Copies these values to `target`, from position `at` on, in the order of `stream`. Each page is read
    /// where its newest content is, on the device or on the host, and stays there. Work that writes the
    /// region has to be complete, and the content must not be discarded. Returns the bytes that were read
    /// from the host.
    ///
    /// # Errors
    /// [`RegionError::Spill`] if the file with the content cannot be read; the errors of the device.
    pub fn read_into(
        &self,
        stream: &Stream,
        values: Range<usize>,
        target: &mut DeviceBuffer<T>,
        at: usize,
    ) -> Result<u64, RegionError> {
        match (&self.managed, &self.held) {
            (_, Some(held)) => {
                let target = target.slice_mut(at..at + values.len())?;
                stream.copy(target, held.slice(values)?)?;
                Ok(0)
            }
            (Some((working, shared)), None) => {
                shared.read_into(stream, values, (target, at), working.spill())
            }
            (None, None) => unreachable!("a region without a manager is held"),
        }
    }

    /// Marks the content of the pages before value `end` as not needed any more, if the region is parked.
    /// Evicting the region then copies less, and the host memory of these pages is released.
    pub fn discard_before(&self, end: usize) {
        let (Some((working, shared)), None) = (&self.managed, &self.held) else {
            return;
        };
        let mut content = shared.content.lock();
        let pages = content.pages.iter_mut().take(end / shared.page_len);
        let old: Vec<_> = pages
            .map(|page| std::mem::replace(page, PageState::Nothing))
            .collect();
        drop(content);
        old.into_iter().for_each(|page| page.give_up(working.spill()));
    }

    /// Declares the access of a launch to it, for [`MemoryManager::grant`](super::MemoryManager::grant).
    pub fn used(&mut self, access: Access) -> Use<'_> {
        Use { region: self, access }
    }
}

impl<T: Pod> Drop for WorkingRegion<T> {
    fn drop(&mut self) {
        if let Some((working, shared)) = &self.managed {
            shared.wanted.store(true, Ordering::Release);
            working.regions.lock().remove(&shared.number);
            let mut content = shared.content.lock();
            let pages = std::mem::take(&mut content.pages);
            let here = content.buffer.take();
            drop(content);
            drop(here);
            pages.into_iter().for_each(|page| page.give_up(working.spill()));
        }
    }
}

/// A region that a launch uses, and its access.
pub struct Use<'r> {
    region: &'r mut dyn Held,
    access: Access,
}

impl Use<'_> {
    /// Bytes of the region.
    pub fn bytes(&self) -> u64 {
        self.region.bytes()
    }

    /// Tries to hold the region, in memory from `make_room` if it has none. Returns `false` if there is no
    /// room.
    pub(super) fn hold(&mut self, make_room: &MakeRoom<'_>) -> Result<bool, RegionError> {
        self.region.hold(self.access, make_room)
    }

    /// Whether it is held.
    pub(super) fn is_held(&self) -> bool {
        self.region.is_held()
    }

    /// Undoes [`Self::hold`].
    pub(super) fn park(&mut self) {
        self.region.park();
    }
}

/// Evicts other regions from a full device. Returns whether a region could be evicted.
pub(super) type MakeRoom<'a> = dyn Fn() -> Result<bool, DeviceError> + 'a;

/// A region of any type, as seen by its owner.
trait Held {
    fn hold(&mut self, access: Access, make_room: &MakeRoom<'_>) -> Result<bool, RegionError>;
    fn is_held(&self) -> bool;
    fn bytes(&self) -> u64;
    fn park(&mut self);
}

impl<T: Pod> Held for WorkingRegion<T> {
    fn hold(&mut self, access: Access, make_room: &MakeRoom<'_>) -> Result<bool, RegionError> {
        let (Some((working, shared)), None) = (&self.managed, &self.held) else {
            return Ok(true);
        };
        let spill = working.spill();
        shared.wanted.store(true, Ordering::Release);
        let mut content = shared.content.lock();
        let mut buffer = match content.buffer.take() {
            Some(buffer) => buffer,
            // While the lock is held, no thread waits for this region's lock to evict it: evictions only try
            // to take the lock.
            None => loop {
                match spill.device().alloc::<T>(&shared.home, shared.len) {
                    Ok(buffer) => break buffer.assume_written(),
                    Err(error) if error.is_out_of_memory() => {
                        if !make_room()? {
                            return Ok(false);
                        }
                    }
                    Err(error) => return Err(error.into()),
                }
            },
        };
        let Content { pages, file, .. } = &mut *content;
        for (number, page) in pages.iter_mut().enumerate() {
            let newest = std::mem::replace(page, PageState::Device);
            *page = match (access, newest) {
                (Access::Write, old) => {
                    old.give_up(spill);
                    PageState::Device
                }
                (Access::Read, PageState::Host(side)) => {
                    PageState::Both(shared.copy_in(number, side, &mut buffer, file, spill)?)
                }
                (Access::Read, both @ PageState::Both(_)) => both,
                (Access::ReadWrite, PageState::Host(side)) => {
                    let side = shared.copy_in(number, side, &mut buffer, file, spill)?;
                    side.give_up(spill);
                    PageState::Device
                }
                (Access::ReadWrite, PageState::Both(side)) => {
                    side.give_up(spill);
                    PageState::Device
                }
                (_, PageState::Device) | (Access::ReadWrite, PageState::Nothing) => PageState::Device,
                // Discarded content is not loaded.
                (Access::Read, PageState::Nothing) => PageState::Nothing,
            };
        }
        if !content.pages.iter().any(PageState::is_in_file) {
            content.file = None;
        }
        content.held = true;
        content.uses += 1;
        drop(content);
        self.held = Some(buffer);
        Ok(true)
    }

    fn is_held(&self) -> bool {
        self.held.is_some()
    }

    fn bytes(&self) -> u64 {
        match (&self.managed, &self.held) {
            (Some((_, shared)), _) => shared.bytes(),
            (None, held) => held.as_ref().map_or(0, DeviceBuffer::bytes),
        }
    }

    fn park(&mut self) {
        Self::park(self);
    }
}
