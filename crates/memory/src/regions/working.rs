//! Working regions: what queries write, moved to the host and back while nobody computes on it (MultiQx §4).
//!
//! ```text
//!   let mut table = manager.working(owner, "group table", buffer);     held: only the owner can reach it
//!   kernel.launch(stream, InOut(&mut table), ...);
//!   table.park();                                                     others may take its place
//!   if manager.grant(&mut [table.used(Access::ReadWrite)])? { ... }       held again, at some address, all of them or none
//! ```
//!
//! A region that its owner holds is pinned: the manager has no way to reach its memory. Between launches the owner may park
//! it; then whoever finds the device full can move it out: pages whose newest content is on the device are copied to pinned host memory, or to a
//! file where the host's budget has no room, and the device memory is freed behind the copies in the order of the owner's stream. Nobody waits
//! but for files. An eviction stops between two pages when the owner comes back or goes.
//!
//! What is loaded and what is copied follows the access that the next launch declares: what it writes is not loaded, what it only reads leaves the copy on the host
//! valid, so that evicting the region again moves nothing (the advice of MultiQx §4.1, by types).

use super::manager::{RegionInfo, RegionKind};
use super::replacement::Candidate;
use super::spill::{Spill, SpillFile};
use bytemuck::Pod;
use galatea_device::{Access, DeviceBuffer, DeviceError, Download, HostMemory, HostView, Stream};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Why a region did not come back, or could not be moved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The device's.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Content that was spilled to a file cannot be read again.
    #[error(
        "{name} ({bytes} bytes) cannot be read back from its spill file: {reason}\nhint: look at the file system of the spill folder, or raise galatea.store_memory_limit"
    )]
    Spill {
        /// What the region holds.
        name: String,
        /// Its bytes.
        bytes: u64,
        /// The file system's error.
        reason: String,
    },
}

/// All working regions of a device.
pub(super) struct Working {
    spill: Spill,
    regions: Mutex<BTreeMap<u64, Arc<dyn Parked>>>,
    next: AtomicU64,
    /// Scans so far: the clock of recency.
    clock: AtomicU64,
    evicted: AtomicU64,
}

/// A working region as others see it.
trait Parked: Send + Sync {
    /// What an eviction would cost; none while it is held, on its way, or not on the device.
    fn candidate(&self) -> Option<Candidate<u64>>;
    /// Moves it out; the bytes freed. 0: it cannot be moved now.
    fn evict(&self, spill: &Spill) -> Result<u64, DeviceError>;
    fn info(&self) -> RegionInfo;
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

    /// The regions that could be moved out.
    pub(super) fn candidates(&self) -> Vec<Candidate<u64>> {
        self.all()
            .iter()
            .filter_map(|region| region.candidate())
            .collect()
    }

    /// Moves a region out; whether that freed anything.
    pub(super) fn evict(&self, number: u64) -> Result<bool, DeviceError> {
        let region = self.regions.lock().get(&number).cloned();
        let freed = region.map_or(Ok(0), |region| region.evict(&self.spill))?;
        self.evicted.fetch_add(u64::from(freed > 0), Ordering::Relaxed);
        Ok(freed > 0)
    }

    /// By the order in which they were made.
    pub(super) fn infos(&self) -> Vec<RegionInfo> {
        self.all().iter().map(|region| region.info()).collect()
    }

    /// A region over a buffer, held by the caller.
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
            owner,
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

/// Device memory that its owner writes and may let others move out between launches. As [`DeviceBuffer`], which it is while it is held.
pub struct WorkingRegion<T: Pod> {
    /// None of memory that is never moved.
    managed: Option<(Arc<Working>, Arc<Shared<T>>)>,
    held: Option<DeviceBuffer<T>>,
}

struct Shared<T> {
    number: u64,
    owner: u64,
    name: String,
    /// Values.
    len: usize,
    /// Values of a page.
    page_len: usize,
    home: Stream,
    /// The owner comes back, or goes: an eviction shall stop.
    wanted: AtomicBool,
    content: Mutex<Content<T>>,
}

struct Content<T> {
    /// While it is parked and on the device.
    buffer: Option<DeviceBuffer<T>>,
    pages: Vec<PageState>,
    file: Option<Box<dyn SpillFile>>,
    /// Whether its owner has it.
    held: bool,
    /// When it was parked last.
    last: u64,
    /// Times it was held.
    uses: u64,
}

/// Where the newest content of a page is.
#[derive(Debug)]
enum PageState {
    /// Nowhere: nobody needs it any more.
    Nothing,
    /// On the device.
    Device,
    /// On the host.
    Host(HostSide),
    /// On both sides, equal.
    Both(HostSide),
}

/// The host side of a page.
#[derive(Debug)]
enum HostSide {
    /// In pinned memory, once the copy is done.
    Copying(Download),
    /// In pinned memory.
    Memory(Arc<HostMemory>),
    /// In the region's file.
    File,
}

impl<T: Pod> Shared<T> {
    fn range(&self, page: usize) -> Range<usize> {
        page * self.page_len..self.len.min((page + 1) * self.page_len)
    }

    fn bytes_of(&self, page: usize) -> u64 {
        (self.range(page).len() * size_of::<T>()) as u64
    }

    fn bytes(&self) -> u64 {
        (self.len * size_of::<T>()) as u64
    }

    /// Copies a page out; none if the host has no place for it.
    fn copy_out(
        &self,
        page: usize,
        buffer: &DeviceBuffer<T>,
        file: &mut Option<Box<dyn SpillFile>>,
        spill: &Spill,
    ) -> Result<Option<HostSide>, DeviceError> {
        let bytes = self.bytes_of(page);
        let source = buffer.slice(self.range(page))?;
        if let Some(memory) = spill.page(bytes)? {
            let copy = self.home.copy_to_host(source, memory, 0)?;
            spill.count_to_memory(bytes);
            return Ok(Some(HostSide::Copying(copy)));
        }
        let staging = self.home.copy_to_host(source, spill.staging(bytes)?, 0)?.wait()?;
        let content = &staging.as_slice()[..bytes as usize];
        let offset = page as u64 * (self.page_len * size_of::<T>()) as u64;
        let written = match file {
            Some(file) => file.write(offset, content).map(|()| true),
            None => spill.file().and_then(|made| match made {
                Some(mut made) => {
                    made.write(offset, content)?;
                    *file = Some(made);
                    Ok(true)
                }
                None => Ok(false),
            }),
        };
        spill.put_staging(staging);
        match written {
            Ok(true) => {
                spill.count_to_files(bytes);
                Ok(Some(HostSide::File))
            }
            Ok(false) => Ok(None),
            Err(error) => {
                tracing::warn!(region = self.name, bytes, "cannot spill to a file: {error}");
                Ok(None)
            }
        }
    }

    /// Copies a page in, in the order of the home stream; its host side stays as it is.
    fn copy_in(
        &self,
        page: usize,
        side: HostSide,
        buffer: &mut DeviceBuffer<T>,
        file: &mut Option<Box<dyn SpillFile>>,
        spill: &Spill,
    ) -> Result<HostSide, RegionError> {
        let bytes = self.bytes_of(page) as usize;
        let target = buffer.slice_mut(self.range(page))?;
        let side = match side {
            HostSide::Copying(copy) => HostSide::Memory(copy.wait()?),
            side => side,
        };
        match &side {
            HostSide::Memory(memory) => {
                let view = HostView::new(Arc::clone(memory), 0, bytes)?;
                self.home.copy_to_device(target, &view)?;
            }
            HostSide::File | HostSide::Copying(_) => {
                let mut staging = spill.staging(bytes as u64)?;
                let shared = DeviceError::HostMemoryShared { bytes: bytes as u64 };
                let content = Arc::get_mut(&mut staging).ok_or(shared)?.as_mut_slice();
                let offset = page as u64 * (self.page_len * size_of::<T>()) as u64;
                let gone = || io::Error::other("the file is gone");
                let file = file.as_mut().ok_or_else(gone);
                file.and_then(|file| file.read(offset, &mut content[..bytes]))
                    .map_err(|error| RegionError::Spill {
                        name: self.name.clone(),
                        bytes: self.bytes(),
                        reason: error.to_string(),
                    })?;
                let view = HostView::new(Arc::clone(&staging), 0, bytes)?;
                self.home.copy_to_device(target, &view)?;
                spill.put_staging(staging);
            }
        }
        spill.count_back(bytes as u64);
        Ok(side)
    }
}

impl<T: Pod> Parked for Shared<T> {
    fn candidate(&self) -> Option<Candidate<u64>> {
        let content = self.content.try_lock()?;
        content.buffer.as_ref()?;
        let dirty = content.pages.iter().enumerate();
        let dirty = dirty.filter(|(_, page)| matches!(page, PageState::Device));
        Some(Candidate {
            key: self.number,
            recency: (content.last, self.number),
            bytes: self.bytes(),
            dirty: dirty.map(|(page, _)| self.bytes_of(page)).sum(),
            uses: content.uses,
            worth: f64::INFINITY,
        })
    }

    fn evict(&self, spill: &Spill) -> Result<u64, DeviceError> {
        // Its owner takes it back now, or somebody else moves it out.
        let Some(mut content) = self.content.try_lock() else {
            return Ok(0);
        };
        let Content {
            buffer, pages, file, ..
        } = &mut *content;
        let Some(here) = buffer else {
            return Ok(0);
        };
        for (number, page) in pages.iter_mut().enumerate() {
            if self.wanted.load(Ordering::Acquire) {
                return Ok(0);
            }
            if matches!(page, PageState::Device) {
                let Some(side) = self.copy_out(number, here, file, spill)? else {
                    return Ok(0);
                };
                *page = PageState::Both(side);
            }
        }
        for page in pages {
            *page = match std::mem::replace(page, PageState::Nothing) {
                PageState::Both(side) => PageState::Host(side),
                page => page,
            };
        }
        // Freed behind the copies, which are queued on the same stream.
        *buffer = None;
        Ok(self.bytes())
    }

    fn info(&self) -> RegionInfo {
        let pages = self.len.div_ceil(self.page_len);
        let mut info = RegionInfo {
            name: self.name.clone(),
            kind: RegionKind::Working,
            owner: Some(self.owner),
            bytes: self.bytes(),
            device_bytes: self.bytes(),
            pages,
            pages_device: pages,
            pages_host: 0,
            pages_both: 0,
            pages_loading: 0,
            uses: 0,
            idle: 0,
        };
        // Locked for long only while it is moved to a file: until then it is on the device.
        let Some(content) = self.content.try_lock() else {
            return info;
        };
        info.uses = content.uses;
        if content.held {
            return info;
        }
        info.device_bytes = content.buffer.as_ref().map_or(0, DeviceBuffer::bytes);
        let count = |is: fn(&PageState) -> bool| content.pages.iter().filter(|page| is(page)).count();
        info.pages_both = count(|page| matches!(page, PageState::Both(_)));
        info.pages_device = count(|page| matches!(page, PageState::Device)) + info.pages_both;
        info.pages_host = count(|page| matches!(page, PageState::Host(_))) + info.pages_both;
        info
    }
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

    /// # Panics
    /// While the region is parked: whoever parks it takes it back with [`MemoryManager::grant`](super::MemoryManager::grant) first.
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
    /// Lets others move it until it is granted again. Work on it must be queued on the stream it was allocated in, or that stream wait
    /// for it.
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

    /// Says that its content is not needed any more: moving it out copies nothing, and bringing it back neither.
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

    /// What a launch does to it, for [`MemoryManager::grant`](super::MemoryManager::grant).
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

impl PageState {
    fn give_up(self, spill: &Spill) {
        match self {
            Self::Host(side) | Self::Both(side) => side.give_up(spill),
            Self::Nothing | Self::Device => {}
        }
    }
}

impl HostSide {
    fn give_up(self, spill: &Spill) {
        match self {
            Self::Copying(copy) => spill.retire(copy),
            Self::Memory(memory) => spill.put(memory),
            Self::File => {}
        }
    }
}

/// A region that a launch uses, and how.
pub struct Use<'r> {
    region: &'r mut dyn Held,
    access: Access,
}

impl Use<'_> {
    /// Tries to hold the region, in memory from `make_room` where it has none; `false`: there is no room.
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

/// Moves others out of a full device; whether there was something to move.
pub(super) type MakeRoom<'a> = dyn Fn() -> Result<bool, DeviceError> + 'a;

/// A region of whatever type, as its owner sees it.
trait Held {
    fn hold(&mut self, access: Access, make_room: &MakeRoom<'_>) -> Result<bool, RegionError>;
    fn is_held(&self) -> bool;
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
            // While the lock is held nobody tries to move this region; those that are moved are only tried for.
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
                (_, PageState::Device) => PageState::Device,
                // Of content that nobody needed there is none to load; what a launch writes is.
                (Access::Read, PageState::Nothing) => PageState::Nothing,
                (Access::ReadWrite, PageState::Nothing) => PageState::Device,
            };
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

    fn park(&mut self) {
        Self::park(self);
    }
}
