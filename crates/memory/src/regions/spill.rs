//! The places for the content of evicted working regions: pinned host memory within its budget, then files.

use galatea_device::{Device, DeviceError, Download, HostMemory};
use parking_lot::Mutex;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of pinned pages without content that are kept at least.
const KEPT_PAGES: u64 = 8;

/// Number of pages through which the content of files is copied.
const STAGING_PAGES: usize = 2;

/// A budget of host memory that is shared with others.
pub trait HostBudget: Debug + Send + Sync {
    /// Takes that number of bytes. Returns `false` if fewer are available.
    fn take(&self, bytes: u64) -> bool;
    /// Returns bytes that were taken.
    fn give(&self, bytes: u64);
    /// Bytes of pinned pages without content that may be kept for the next eviction: pinning a page takes
    /// longer than copying to it.
    fn idle(&self) -> u64 {
        0
    }
}

/// Creates files for content that does not fit into host memory.
pub trait SpillFiles: Debug + Send + Sync {
    /// Creates a separate empty file, which is deleted when it is dropped.
    ///
    /// # Errors
    /// The error of the file system, or that spilling to files is disabled.
    fn create(&self) -> io::Result<Box<dyn SpillFile>>;
}

/// The spill file of one region.
pub trait SpillFile: Debug + Send {
    /// Appends bytes. Returns the offset of the first.
    ///
    /// # Errors
    /// The error of the file system, or that no more room for such files is left.
    fn append(&mut self, bytes: &[u8]) -> io::Result<u64>;
    /// Fills `bytes` from a byte offset on.
    ///
    /// # Errors
    /// The error of the file system.
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
}

/// Bytes moved out of device memory and back.
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
    /// Pages without content, charged to the budget. While a copy from a page is in progress, it holds
    /// another reference to the page.
    idle: Mutex<Vec<Arc<HostMemory>>>,
    /// Pages through which file content is copied.
    staging: Mutex<Vec<Arc<HostMemory>>>,
    /// Copies of dropped regions. No query waits for them.
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

    /// Bytes of a page of regions created from now on.
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

    /// Takes a pinned page of at least `bytes`, within the host budget; `None` if the budget has no room.
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
            // The system has no memory: the caller may use a file.
            Err(_) => {
                self.give(bytes);
                Ok(None)
            }
        }
    }

    /// Takes a page for a copy to or from a file. A few such pages exist beside the budget.
    pub(super) fn staging(&self, bytes: u64) -> Result<Arc<HostMemory>, DeviceError> {
        let mut staging = self.staging.lock();
        let fits = |page: &Arc<HostMemory>| page.len() as u64 >= bytes && Arc::strong_count(page) == 1;
        let at = staging.iter().position(fits);
        let found = at.map(|at| staging.swap_remove(at));
        drop(staging);
        found.map_or_else(|| self.pinned(bytes.max(self.page_bytes())), Ok)
    }

    /// Returns a staging page. A copy from it may still be in progress.
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

    /// An idle page that no copy is reading any more.
    fn idle_page(&self, bytes: u64) -> Option<Arc<HostMemory>> {
        let mut idle = self.idle.lock();
        let fits = |page: &Arc<HostMemory>| page.len() as u64 >= bytes && Arc::strong_count(page) == 1;
        let at = idle.iter().position(fits)?;
        Some(idle.swap_remove(at))
    }

    /// Returns a page.
    pub(super) fn put(&self, page: Arc<HostMemory>) {
        let kept = self.budget.lock().as_ref().map_or(0, |budget| budget.idle());
        let kept = kept.max(KEPT_PAGES * self.page_bytes());
        let mut idle = self.idle.lock();
        let held: u64 = idle.iter().map(|page| page.len() as u64).sum();
        if held + page.len() as u64 <= kept {
            idle.push(page);
            return;
        }
        drop(idle);
        self.give(page.len() as u64);
    }

    /// Returns a page that is still the target of a copy.
    pub(super) fn retire(&self, copy: Download) {
        self.retired.lock().push(copy);
    }

    /// Returns the pages of completed copies.
    fn sweep(&self) {
        let mut retired = self.retired.lock();
        let (done, under_way): (Vec<_>, Vec<_>) = retired.drain(..).partition(Download::is_complete);
        *retired = under_way;
        drop(retired);
        for copy in done {
            match copy.wait() {
                Ok(page) => self.put(page),
                // The device has failed: its memory was released with the copy.
                Err(_) => self.give(self.page_bytes()),
            }
        }
    }

    /// Releases pages without content.
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

    /// Creates a file for a region.
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
