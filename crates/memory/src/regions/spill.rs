//! The places of working regions' content when they leave device memory: pinned host memory as far as its
//! budget reaches, then files.

use galatea_device::{Device, DeviceError, Download, HostMemory};
use parking_lot::Mutex;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pinned pages that are kept for the next eviction: pinning one takes longer than copying to it.
const KEPT_PAGES: usize = 8;

/// Pages that content of files is copied through.
const STAGING_PAGES: usize = 2;

/// Host memory that others use too.
pub trait HostBudget: Debug + Send + Sync {
    /// Takes so many bytes; `false`: there are not that many.
    fn take(&self, bytes: u64) -> bool;
    /// Gives bytes back that were taken.
    fn give(&self, bytes: u64);
}

/// Makes files for content that host memory has no room for.
pub trait SpillFiles: Debug + Send + Sync {
    /// An empty file of its own, which is deleted when it is dropped.
    ///
    /// # Errors
    /// The file system's, or that spilling to files is switched off.
    fn create(&self) -> io::Result<Box<dyn SpillFile>>;
}

/// A file that one region spills to.
pub trait SpillFile: Debug + Send {
    /// Appends bytes; returns the offset of the first.
    ///
    /// # Errors
    /// The file system's, or that there is no more room for such files.
    fn append(&mut self, bytes: &[u8]) -> io::Result<u64>;
    /// Fills `bytes` from a byte offset on.
    ///
    /// # Errors
    /// The file system's.
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
}

/// Bytes that went out of device memory and came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpillCounts {
    /// Bytes copied to host memory.
    pub to_memory: u64,
    /// Bytes written to files.
    pub to_files: u64,
    /// Bytes copied back to the device.
    pub back: u64,
    /// Bytes of pinned host memory in use now.
    pub held: u64,
}

/// The spill memory of a device.
#[derive(Debug)]
pub(super) struct Spill {
    device: Device,
    page_bytes: AtomicU64,
    budget: Mutex<Option<Arc<dyn HostBudget>>>,
    files: Mutex<Option<Arc<dyn SpillFiles>>>,
    /// Pages without content; charged to the budget. A copy from one may still be under way: then others
    /// refer to it.
    idle: Mutex<Vec<Arc<HostMemory>>>,
    /// Pages on the way to or from files.
    staging: Mutex<Vec<Arc<HostMemory>>>,
    /// Copies whose region was dropped; no query waits for them.
    retired: Mutex<Vec<Download>>,
    to_memory: AtomicU64,
    to_files: AtomicU64,
    back: AtomicU64,
    held: AtomicU64,
}

impl Spill {
    pub(super) fn new(device: &Device, page_bytes: u64) -> Self {
        Self {
            device: device.clone(),
            page_bytes: AtomicU64::new(page_bytes),
            budget: Mutex::default(),
            files: Mutex::default(),
            idle: Mutex::default(),
            staging: Mutex::default(),
            retired: Mutex::default(),
            to_memory: AtomicU64::new(0),
            to_files: AtomicU64::new(0),
            back: AtomicU64::new(0),
            held: AtomicU64::new(0),
        }
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn set_page_bytes(&self, bytes: u64) {
        self.page_bytes.store(bytes.max(64), Ordering::Relaxed);
    }

    /// Bytes of a page of regions made from now on.
    pub(super) fn page_bytes(&self) -> u64 {
        self.page_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn set_places(&self, budget: Arc<dyn HostBudget>, files: Arc<dyn SpillFiles>) {
        *self.budget.lock() = Some(budget);
        *self.files.lock() = Some(files);
    }

    pub(super) fn counts(&self) -> SpillCounts {
        SpillCounts {
            to_memory: self.to_memory.load(Ordering::Relaxed),
            to_files: self.to_files.load(Ordering::Relaxed),
            back: self.back.load(Ordering::Relaxed),
            held: self.held.load(Ordering::Relaxed),
        }
    }

    pub(super) fn count_to_memory(&self, bytes: u64) {
        self.to_memory.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn count_to_files(&self, bytes: u64) {
        self.to_files.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn count_back(&self, bytes: u64) {
        self.back.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A pinned page of at least `bytes`, within the host budget; none if that has no room.
    pub(super) fn page(&self, bytes: u64) -> Result<Option<Arc<HostMemory>>, DeviceError> {
        self.sweep();
        if let Some(idle) = self.idle_page(bytes) {
            return Ok(Some(idle));
        }
        let bytes = bytes.max(self.page_bytes());
        if !self.take(bytes) {
            return Ok(None);
        }
        match self.pinned(bytes) {
            Ok(memory) => Ok(Some(memory)),
            Err(error) if error.is_device_lost() => {
                self.give(bytes);
                Err(error)
            }
            // The system has no memory: a file may do.
            Err(_) => {
                self.give(bytes);
                Ok(None)
            }
        }
    }

    /// A page to copy through on the way to or from a file: beside the budget, there are a few.
    pub(super) fn staging(&self, bytes: u64) -> Result<Arc<HostMemory>, DeviceError> {
        let mut staging = self.staging.lock();
        let fits = |page: &Arc<HostMemory>| page.len() as u64 >= bytes && Arc::strong_count(page) == 1;
        let at = staging.iter().position(fits);
        let found = at.map(|at| staging.swap_remove(at));
        drop(staging);
        found.map_or_else(|| self.pinned(bytes.max(self.page_bytes())), Ok)
    }

    /// Takes a staging page back; a copy from it may still be under way.
    pub(super) fn put_staging(&self, page: Arc<HostMemory>) {
        let mut staging = self.staging.lock();
        if staging.len() < STAGING_PAGES {
            staging.push(page);
        }
    }

    fn pinned(&self, bytes: u64) -> Result<Arc<HostMemory>, DeviceError> {
        let memory = Arc::new(HostMemory::new(usize::try_from(bytes).unwrap_or(usize::MAX))?);
        self.device.pin_if_possible(&memory)?;
        Ok(memory)
    }

    /// A page that is idle, and that no copy is reading any more.
    fn idle_page(&self, bytes: u64) -> Option<Arc<HostMemory>> {
        let mut idle = self.idle.lock();
        let fits = |page: &Arc<HostMemory>| page.len() as u64 >= bytes && Arc::strong_count(page) == 1;
        let at = idle.iter().position(fits)?;
        Some(idle.swap_remove(at))
    }

    /// Takes a page back.
    pub(super) fn put(&self, page: Arc<HostMemory>) {
        let mut idle = self.idle.lock();
        if idle.len() < KEPT_PAGES {
            idle.push(page);
            return;
        }
        drop(idle);
        self.give(page.len() as u64);
    }

    /// Takes back a page that is still copied to.
    pub(super) fn retire(&self, copy: Download) {
        self.retired.lock().push(copy);
    }

    /// Takes back pages whose copies are done by now.
    fn sweep(&self) {
        let mut retired = self.retired.lock();
        let (done, under_way): (Vec<_>, Vec<_>) = retired.drain(..).partition(Download::is_complete);
        *retired = under_way;
        drop(retired);
        for copy in done {
            match copy.wait() {
                Ok(page) => self.put(page),
                // The device has failed: its memory went with the copy.
                Err(_) => self.give(self.page_bytes()),
            }
        }
    }

    /// Gives up pages without content.
    pub(super) fn clear(&self) {
        self.sweep();
        let idle = std::mem::take(&mut *self.idle.lock());
        for page in idle {
            self.give(page.len() as u64);
        }
    }

    fn take(&self, bytes: u64) -> bool {
        let taken = self
            .budget
            .lock()
            .as_ref()
            .is_none_or(|budget| budget.take(bytes));
        self.held
            .fetch_add(if taken { bytes } else { 0 }, Ordering::Relaxed);
        taken
    }

    fn give(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(budget) = &*self.budget.lock() {
            budget.give(bytes);
        }
    }

    /// A file for a region.
    pub(super) fn file(&self) -> io::Result<Box<dyn SpillFile>> {
        let files = self.files.lock().clone();
        match files {
            Some(files) => files.create(),
            None => Err(io::Error::other("there is no folder to spill to")),
        }
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        let retired = std::mem::take(self.retired.get_mut());
        for copy in retired {
            if let Ok(page) = copy.wait() {
                self.give(page.len() as u64);
            }
        }
        self.clear();
    }
}
