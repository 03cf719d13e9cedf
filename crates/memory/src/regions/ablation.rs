//! Parts of the memory manager that can be disabled, one at a time, to measure the benefit of each (MultiQx
//! §7.3), and the engine without a manager, to measure the alternative. For experiments: results are the same
//! with each.

use galatea_device::{Device, DeviceError, HostMemory, HostView};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

/// A part that is disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ablation {
    /// Lazy transfer: all pages of a scan are copied before its first launch (NoLazy).
    Eager,
    /// Copying from the source: host data is copied to a staging buffer first, and from there to the device
    /// (NoCow).
    Copied,
    /// Reference advice: a scan pins every region that is in device memory while its launches are queued
    /// (NoRef).
    NoReference,
    /// Access advice: pages count as written, so that an eviction copies them back to the host (NoAccess).
    NoAccess,
    /// Pages: a region is loaded and evicted as a whole (NoPage).
    WholeRegion,
    /// The manager: queries are not admitted one by one, nothing is evicted for them, and a query that finds
    /// the device full fails. A query's columns are dropped when it ends.
    Naive,
}

impl Ablation {
    /// All ablations, with their names in settings.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Eager, "eager"),
        (Self::Copied, "copied"),
        (Self::NoReference, "no-reference"),
        (Self::NoAccess, "no-access"),
        (Self::WholeRegion, "whole-region"),
        (Self::Naive, "naive"),
    ];
}

/// A set of [`Ablation`]s; empty by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ablations(u8);

impl Ablations {
    /// Adds an ablation to the set.
    #[must_use]
    pub fn with(self, ablation: Ablation) -> Self {
        Self(self.0 | 1 << ablation as u8)
    }

    /// Whether the set contains that ablation.
    pub fn has(self, ablation: Ablation) -> bool {
        self.0 & (1 << ablation as u8) != 0
    }
}

/// The active ablations of a device, and host memory through which some of them copy.
#[derive(Debug, Default)]
pub(super) struct Ablated {
    set: AtomicU8,
    device: OnceLock<Device>,
    scratch: Mutex<Vec<Arc<HostMemory>>>,
}

/// Host memory is allocated in multiples of this many bytes, so that pages of about one size share it.
const SCRATCH: usize = 1 << 20;

impl Ablated {
    pub(super) fn set(&self, device: &Device, ablations: Ablations) {
        if self.set.swap(ablations.0, Ordering::Relaxed) != ablations.0 {
            self.device.get_or_init(|| device.clone());
            self.scratch.lock().clear();
        }
    }

    pub(super) fn has(&self, ablation: Ablation) -> bool {
        self.get().has(ablation)
    }

    pub(super) fn get(&self) -> Ablations {
        Ablations(self.set.load(Ordering::Relaxed))
    }

    /// Takes pinned host memory of at least that size for exclusive use. It has to be returned once the
    /// copies from it are queued, and is reused when they are done.
    pub(super) fn take(&self, bytes: usize) -> Result<Arc<HostMemory>, DeviceError> {
        let mut kept = self.scratch.lock();
        // A copy in progress holds the memory, too.
        let free = kept
            .iter()
            .position(|memory| memory.len() >= bytes && Arc::strong_count(memory) == 1);
        if let Some(at) = free {
            return Ok(kept.swap_remove(at));
        }
        drop(kept);
        let memory = Arc::new(HostMemory::new(bytes.next_multiple_of(SCRATCH))?);
        if let Some(device) = self.device.get() {
            device.pin_if_possible(&memory)?;
        }
        Ok(memory)
    }

    pub(super) fn give(&self, memory: Arc<HostMemory>) {
        self.scratch.lock().push(memory);
    }

    /// Copies the bytes of the view to a staging buffer.
    pub(super) fn staged(&self, view: &HostView) -> Result<HostView, DeviceError> {
        let mut memory = self.take(view.len())?;
        let shared = DeviceError::HostMemoryShared {
            bytes: view.len() as u64,
        };
        let target = Arc::get_mut(&mut memory).ok_or(shared)?;
        target.as_mut_slice()[..view.len()].copy_from_slice(view.as_slice());
        self.give(Arc::clone(&memory));
        HostView::new(memory, 0, view.len())
    }
}
