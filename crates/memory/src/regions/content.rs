//! The content of a working region: the location of the newest content of each page, and the copies to the
//! host and back.

use super::error::RegionError;
use super::info::{RegionInfo, RegionKind};
use super::replacement::Candidate;
use super::spill::{Charge, Spill, SpillFile, SpillPage};
use bytemuck::Pod;
use galatea_device::{DeviceBuffer, DeviceError, DeviceSliceMut, Download, HostMemory, HostView, Stream};
use parking_lot::Mutex;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The owner of regions that belong to no query.
pub(super) const NOBODY: u64 = u64::MAX;

/// A working region as seen by the manager.
pub(super) trait Parked: Send + Sync {
    /// The cost of an eviction; `None` while it is held, being moved, or not on the device.
    fn candidate(&self) -> Option<Candidate<u64>>;
    /// Evicts the region and returns the bytes freed; 0 if it cannot be evicted now.
    fn evict(&self, spill: &Spill) -> Result<u64, DeviceError>;
    fn info(&self) -> RegionInfo;
}

/// The part of a working region that its owner and the manager share.
pub(super) struct Shared<T> {
    pub(super) number: u64,
    pub(super) owner: AtomicU64,
    pub(super) name: String,
    /// Number of values.
    pub(super) len: usize,
    /// Number of values of a page.
    pub(super) page_len: usize,
    pub(super) home: Stream,
    /// The owner takes the region back, or drops it: an eviction has to stop.
    pub(super) wanted: AtomicBool,
    pub(super) content: Mutex<Content<T>>,
}

pub(super) struct Content<T> {
    /// The memory, while the region is parked and on the device.
    pub(super) buffer: Option<DeviceBuffer<T>>,
    pub(super) pages: Vec<PageState>,
    pub(super) file: Option<Box<dyn SpillFile>>,
    /// Whether its owner holds it.
    pub(super) held: bool,
    /// The time at which it was last parked.
    pub(super) last: u64,
    /// Number of times that it was held.
    pub(super) uses: u64,
}

/// The location of the newest content of a page.
#[derive(Debug)]
pub(super) enum PageState {
    /// None: the content is not needed any more.
    Nothing,
    /// On the device.
    Device,
    /// On the host.
    Host(HostSide),
    /// On both sides, with equal content.
    Both(HostSide),
}

/// The host side of a page.
#[derive(Debug)]
pub(super) enum HostSide {
    /// Being copied to pinned memory.
    Copying(Download, Charge),
    /// In pinned memory.
    Memory(SpillPage),
    /// In the region's file, at this byte offset.
    File(u64),
}

impl<T: Pod> Shared<T> {
    fn range(&self, page: usize) -> Range<usize> {
        page * self.page_len..self.len.min((page + 1) * self.page_len)
    }

    fn bytes_of(&self, page: usize) -> u64 {
        (self.range(page).len() * size_of::<T>()) as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.len * size_of::<T>()) as u64
    }

    /// Copies a page to the host; `None` if the host has no room for it.
    fn copy_out(
        &self,
        page: usize,
        buffer: &DeviceBuffer<T>,
        file: &mut Option<Box<dyn SpillFile>>,
        spill: &Spill,
    ) -> Result<Option<HostSide>, DeviceError> {
        let bytes = self.bytes_of(page);
        let source = buffer.slice(self.range(page))?;
        if let Some(SpillPage { memory, charge }) = spill.page(bytes)? {
            let copy = self.home.copy_to_host(source, memory, 0)?;
            spill.count_to_memory(bytes);
            return Ok(Some(HostSide::Copying(copy, charge)));
        }
        let staging = self.home.copy_to_host(source, spill.staging(bytes)?, 0)?.wait()?;
        let content = &staging.as_slice()[..bytes as usize];
        let written = append(file, content, spill);
        spill.put_staging(staging);
        match written {
            Ok(offset) => {
                spill.count_to_files(bytes);
                Ok(Some(HostSide::File(offset)))
            }
            Err(error) => {
                tracing::warn!(region = self.name, bytes, "cannot spill to a file: {error}");
                Ok(None)
            }
        }
    }

    /// Copies a page to the device, in the order of the home stream. Its host side is unchanged.
    pub(super) fn copy_in(
        &self,
        page: usize,
        side: HostSide,
        buffer: &mut DeviceBuffer<T>,
        file: &mut Option<Box<dyn SpillFile>>,
        spill: &Spill,
    ) -> Result<HostSide, RegionError> {
        let side = side.arrived()?;
        let target = buffer.slice_mut(self.range(page))?;
        self.read_side(&self.home, &side, 0, target, (file, spill))?;
        Ok(side)
    }

    /// Copies values to `target`, from a position on, from the location of the newest content of each page.
    /// Returns the bytes that were read from the host.
    pub(super) fn read_into(
        &self,
        stream: &Stream,
        values: Range<usize>,
        (target, at): (&mut DeviceBuffer<T>, usize),
        spill: &Spill,
    ) -> Result<u64, RegionError> {
        let mut content = self.content.lock();
        let Content {
            buffer, pages, file, ..
        } = &mut *content;
        if let Some(buffer) = buffer {
            let target = target.slice_mut(at..at + values.len())?;
            stream.copy(target, buffer.slice(values)?)?;
            return Ok(0);
        }
        let mut first = values.start;
        while first < values.end {
            let page = first / self.page_len;
            let end = values.end.min(self.range(page).end);
            let into = at + (first - values.start);
            let target = target.slice_mut(into..into + (end - first))?;
            let PageState::Host(side) = std::mem::replace(&mut pages[page], PageState::Nothing) else {
                unreachable!("a parked region without device memory has its content on the host");
            };
            let side = side.arrived()?;
            let skipped = first - page * self.page_len;
            let read = self.read_side(stream, &side, skipped, target, (file, spill));
            pages[page] = PageState::Host(side);
            read?;
            first = end;
        }
        Ok((values.len() * size_of::<T>()) as u64)
    }

    /// Copies values of a page to the device, in the order of `stream`: those after `skipped` others, from
    /// its host side, which has arrived.
    fn read_side(
        &self,
        stream: &Stream,
        side: &HostSide,
        skipped: usize,
        target: DeviceSliceMut<'_, T>,
        (file, spill): (&mut Option<Box<dyn SpillFile>>, &Spill),
    ) -> Result<(), RegionError> {
        let (skipped, bytes) = (skipped * size_of::<T>(), target.bytes() as usize);
        match side {
            HostSide::Memory(page) => {
                let view = HostView::new(Arc::clone(&page.memory), skipped, bytes)?;
                stream.copy_to_device(target, &view)?;
            }
            HostSide::Copying(..) => unreachable!("the page has arrived"),
            HostSide::File(offset) => {
                let staging = self.read_file(file, *offset + skipped as u64, bytes, spill)?;
                let view = HostView::new(Arc::clone(&staging), 0, bytes)?;
                stream.copy_to_device(target, &view)?;
                spill.put_staging(staging);
            }
        }
        spill.count_back(bytes as u64);
        Ok(())
    }

    /// Reads bytes of the region's file to a staging page.
    fn read_file(
        &self,
        file: &mut Option<Box<dyn SpillFile>>,
        offset: u64,
        bytes: usize,
        spill: &Spill,
    ) -> Result<Arc<HostMemory>, RegionError> {
        let mut staging = spill.staging(bytes as u64)?;
        let shared = DeviceError::HostMemoryShared { bytes: bytes as u64 };
        let content = Arc::get_mut(&mut staging).ok_or(shared)?.as_mut_slice();
        let gone = || io::Error::other("the file is gone");
        let file = file.as_mut().ok_or_else(gone);
        file.and_then(|file| file.read(offset, &mut content[..bytes]))
            .map_err(|error| RegionError::Spill {
                name: self.name.clone(),
                bytes: self.bytes(),
                reason: error.to_string(),
            })?;
        Ok(staging)
    }
}

/// Appends to a file, which is created if necessary.
fn append(file: &mut Option<Box<dyn SpillFile>>, content: &[u8], spill: &Spill) -> io::Result<u64> {
    let mut open = match file.take() {
        Some(open) => open,
        None => spill.file()?,
    };
    let offset = open.append(content);
    // Kept also after a failure: it contains other pages.
    *file = Some(open);
    offset
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
        // Its owner takes it back now, or another thread evicts it.
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
        // Freed after the copies, which are queued on the same stream.
        *buffer = None;
        Ok(self.bytes())
    }

    fn info(&self) -> RegionInfo {
        let pages = self.len.div_ceil(self.page_len);
        let mut info = RegionInfo {
            name: self.name.clone(),
            kind: RegionKind::Working,
            owner: Some(self.owner.load(Ordering::Relaxed)).filter(|owner| *owner != NOBODY),
            bytes: self.bytes(),
            device_bytes: self.bytes(),
            pages,
            pages_device: pages,
            pages_host: 0,
            pages_disk: 0,
            pages_both: 0,
            pages_loading: 0,
            uses: 0,
            idle: 0,
        };
        // The lock is held for long only while the region is moved to a file. Until then it is on the device.
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
        info.pages_disk = count(PageState::is_in_file);
        info
    }
}

impl PageState {
    pub(super) fn is_in_file(&self) -> bool {
        matches!(
            self,
            Self::Host(HostSide::File(_)) | Self::Both(HostSide::File(_))
        )
    }

    pub(super) fn give_up(self, spill: &Spill) {
        match self {
            Self::Host(side) | Self::Both(side) => side.give_up(spill),
            Self::Nothing | Self::Device => {}
        }
    }
}

impl HostSide {
    /// The same after its copy has completed.
    fn arrived(self) -> Result<Self, DeviceError> {
        Ok(match self {
            Self::Copying(copy, charge) => {
                let memory = copy.wait()?;
                Self::Memory(SpillPage { memory, charge })
            }
            side => side,
        })
    }

    pub(super) fn give_up(self, spill: &Spill) {
        match self {
            Self::Copying(copy, charge) => spill.retire(copy, charge),
            Self::Memory(page) => spill.put(page),
            Self::File(_) => {}
        }
    }
}
