//! One page of a region in device memory.

use super::ablation::Ablated;
use galatea_device::{DeviceBuffer, DeviceError, Event, Stream};
use parking_lot::Mutex;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Device memory that contains, or is about to contain, a copy of some host data.
#[derive(Debug)]
pub struct Page {
    address: u64,
    bytes: u64,
    /// Number of holders of its address with launches that are not queued yet.
    pins: AtomicU32,
    /// Whether the copy has been found complete.
    here: AtomicBool,
    /// Bytes of all pages of the manager, including this one.
    all: Arc<AtomicU64>,
    memory: Mutex<Memory>,
}

#[derive(Debug)]
struct Memory {
    buffer: DeviceBuffer<u8>,
    /// Recorded after the copy.
    copied: Option<Arc<Event>>,
}

impl Page {
    pub(super) fn new(buffer: DeviceBuffer<u8>, all: &Arc<AtomicU64>) -> Self {
        all.fetch_add(buffer.bytes(), Ordering::Relaxed);
        Self {
            address: buffer.address(),
            bytes: buffer.bytes(),
            pins: AtomicU32::new(0),
            here: AtomicBool::new(false),
            all: Arc::clone(all),
            memory: Mutex::new(Memory { buffer, copied: None }),
        }
    }

    /// Its first byte on the device.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size in device memory.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether its content is loaded. Does not wait for a thread that is queueing its copy.
    pub fn is_here(&self) -> bool {
        if self.here.load(Ordering::Acquire) {
            return true;
        }
        let memory = self.memory.try_lock();
        let copied = memory.as_ref().and_then(|memory| memory.copied.as_ref());
        // Other calls report a failed device.
        let here = copied.is_some_and(|copied| copied.is_complete().unwrap_or(false));
        if here {
            self.here.store(true, Ordering::Release);
        }
        here
    }

    /// Queues a copy of its content on `stream`, unless another query has already done so. Returns the event
    /// to wait for, if the copy may still be in progress, and the bytes that this call has queued. The query
    /// that needs a page first queues its copy; all others wait for that copy.
    ///
    /// # Errors
    /// The errors of the device. The next call queues the copy again.
    pub fn fetch(
        &self,
        stream: &Stream,
        copy: impl FnOnce(&Stream, &mut DeviceBuffer<u8>) -> Result<u64, DeviceError>,
    ) -> Result<(Option<Arc<Event>>, u64), DeviceError> {
        if self.here.load(Ordering::Acquire) {
            return Ok((None, 0));
        }
        let mut memory = self.memory.lock();
        if let Some(copied) = &memory.copied {
            if copied.is_complete()? {
                self.here.store(true, Ordering::Release);
                return Ok((None, 0));
            }
            return Ok((Some(Arc::clone(copied)), 0));
        }
        let bytes = copy(stream, &mut memory.buffer)?;
        let copied = Arc::new(stream.record()?);
        memory.copied = Some(Arc::clone(&copied));
        Ok((Some(copied), bytes))
    }

    /// Copies its content to host memory that is not read: the cost of an eviction if pages were written.
    pub(super) fn copy_out(&self, home: &Stream, ablated: &Ablated) -> Result<(), DeviceError> {
        let memory = self.memory.lock();
        if memory.buffer.is_empty() {
            return Ok(());
        }
        let scratch = ablated.take(memory.buffer.len())?;
        let copied = home.copy_to_host(&memory.buffer, scratch, 0)?.wait()?;
        ablated.give(copied);
        Ok(())
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.pins.load(Ordering::Acquire) > 0
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Prevents the eviction of a page. It has to be dropped after the launches that read the page are queued and
/// [`Scan::used`](super::Scan::used) was called.
#[derive(Debug)]
pub struct PagePin(Arc<Page>);

impl PagePin {
    /// Pins the page under the manager's lock, so that no eviction happens between look-up and pin.
    pub(super) fn new(page: &Arc<Page>) -> Self {
        page.pins.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(page))
    }
}

impl Deref for PagePin {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.0
    }
}

impl Drop for PagePin {
    fn drop(&mut self) {
        self.0.pins.fetch_sub(1, Ordering::AcqRel);
    }
}
