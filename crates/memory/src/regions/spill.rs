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

/// The bytes of spill pages, and the budget that they are taken from.
#[derive(Debug, Default)]
struct Account {
    budget: Mutex<Option<Arc<dyn HostBudget>>>,
    held: AtomicU64,
}

impl Account {
    /// Takes that number of bytes; `None` if the budget has fewer.
    fn take(self: &Arc<Self>, bytes: u64) -> Option<Charge> {
        let is_taken = self
            .budget
            .lock()
            .as_ref()
            .is_none_or(|budget| budget.take(bytes));
        is_taken.then(|| {
            self.held.fetch_add(bytes, Ordering::Relaxed);
            Charge {
                account: Arc::clone(self),
                bytes,
            }
        })
    }
}

/// Bytes that are taken from the host budget until it is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    account: Arc<Account>,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.held.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(budget) = &*self.account.budget.lock() {
            budget.give(self.bytes);
        }
    }
}

/// Pinned host memory for content of a region.
#[derive(Debug)]
pub(super) struct SpillPage {
    pub(super) memory: Arc<HostMemory>,
    pub(super) charge: Charge,
}

/// The spill memory of a device.
#[derive(Debug)]
pub(super) struct Spill {
    device: Device,
    page_bytes: AtomicU64,
    account: Arc<Account>,
    files: Mutex<Option<Arc<dyn SpillFiles>>>,
    /// Pages without content. While a copy from a page is in progress, it holds another reference to its
    /// memory.
    idle: Mutex<Vec<SpillPage>>,
    /// Pages through which file content is copied.
    staging: Mutex<Vec<Arc<HostMemory>>>,
    /// Copies of dropped regions. No query waits for them.
    retired: Mutex<Vec<(Download, Charge)>>,
    to_memory: AtomicU64,
    to_files: AtomicU64,
    back: AtomicU64,
}

impl Spill {
    pub(super) fn new(device: &Device, page_bytes: u64) -> Self {
        Self {
            device: device.clone(),
            page_bytes: AtomicU64::new(page_bytes),
            account: Arc::default(),
            files: Mutex::default(),
            idle: Mutex::default(),
            staging: Mutex::default(),
            retired: Mutex::default(),
            to_memory: AtomicU64::new(0),
            to_files: AtomicU64::new(0),
            back: AtomicU64::new(0),
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
        *self.account.budget.lock() = Some(budget);
        *self.files.lock() = Some(files);
    }

    pub(super) fn counts(&self) -> SpillCounts {
        SpillCounts {
            to_memory: self.to_memory.load(Ordering::Relaxed),
            to_files: self.to_files.load(Ordering::Relaxed),
            back: self.back.load(Ordering::Relaxed),
            held: self.account.held.load(Ordering::Relaxed),
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
    pub(super) fn page(&self, bytes: u64) -> Result<Option<SpillPage>, DeviceError> {
        self.sweep();
        if let Some(idle) = self.idle_page(bytes) {
            return Ok(Some(idle));
        }
        let bytes = bytes.max(self.page_bytes());
        let Some(charge) = self.account.take(bytes) else {
            return Ok(None);
        };
        match self.pinned(bytes) {
            Ok(memory) => Ok(Some(SpillPage { memory, charge })),
            Err(error) if error.is_device_lost() => Err(error),
            // The system has no memory: the caller may use a file.
            Err(_) => Ok(None),
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
    fn idle_page(&self, bytes: u64) -> Option<SpillPage> {
        let mut idle = self.idle.lock();
        let fits =
            |page: &SpillPage| page.memory.len() as u64 >= bytes && Arc::strong_count(&page.memory) == 1;
        let at = idle.iter().position(fits)?;
        Some(idle.swap_remove(at))
    }

    /// Returns a page.
    pub(super) fn put(&self, page: SpillPage) {
        let kept = self
            .account
            .budget
            .lock()
            .as_ref()
            .map_or(0, |budget| budget.idle());
        let kept = kept.max(KEPT_PAGES * self.page_bytes());
        let mut idle = self.idle.lock();
        let held: u64 = idle.iter().map(|page| page.charge.bytes).sum();
        if held + page.charge.bytes <= kept {
            idle.push(page);
        }
    }

    /// Returns a page that is still the target of a copy.
    pub(super) fn retire(&self, copy: Download, charge: Charge) {
        self.retired.lock().push((copy, charge));
    }

    /// Returns the pages of completed copies.
    fn sweep(&self) {
        let mut retired = self.retired.lock();
        let (done, under_way): (Vec<_>, Vec<_>) = retired.drain(..).partition(|(copy, _)| copy.is_complete());
        *retired = under_way;
        drop(retired);
        for (copy, charge) in done {
            // If the device has failed, the memory was released with the copy.
            if let Ok(memory) = copy.wait() {
                self.put(SpillPage { memory, charge });
            }
        }
    }

    /// Releases pages without content.
    pub(super) fn clear(&self) {
        self.sweep();
        self.idle.lock().clear();
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
