//! Accounting of the host memory of the store.
//!
//! The ledger keeps weak references to slabs, dictionaries and layouts and sums the bytes of those still
//! alive. An evicted column is therefore counted until the last query that reads it is done. A dropped column
//! is no longer counted, although nobody reports the drop. Bytes that are about to become slabs (columns
//! being encoded) are counted as reservations.

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arrow::array::{Array, ArrayRef};
use parking_lot::Mutex;

use galatea_device::HostMemory;

use crate::layout::SlotLayout;

/// The store's memory: allocations that are alive, reservations, and the limit.
#[derive(Debug)]
pub(crate) struct Ledger {
    limit: AtomicU64,
    reserved: AtomicU64,
    slabs: Mutex<Vec<(Weak<HostMemory>, u64)>>,
    dictionaries: Mutex<Vec<(Weak<dyn Array>, u64)>>,
    layouts: Mutex<Vec<Weak<SlotLayout>>>,
}

impl Ledger {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit: AtomicU64::new(limit),
            reserved: AtomicU64::new(0),
            slabs: Mutex::default(),
            dictionaries: Mutex::default(),
            layouts: Mutex::default(),
        }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of live slabs, dictionaries and layouts, and of reservations.
    pub(crate) fn used(&self) -> u64 {
        let mut slabs = self.slabs.lock();
        slabs.retain(|(slab, _)| slab.strong_count() > 0);
        let mut dictionaries = self.dictionaries.lock();
        dictionaries.retain(|(dictionary, _)| dictionary.strong_count() > 0);
        let mut layouts = self.layouts.lock();
        layouts.retain(|layout| layout.strong_count() > 0);
        let layouts = layouts.iter().filter_map(Weak::upgrade);
        slabs.iter().map(|(_, bytes)| bytes).sum::<u64>()
            + layouts.map(|layout| layout.bytes()).sum::<u64>()
            + dictionaries.iter().map(|(_, bytes)| bytes).sum::<u64>()
            + self.reserved.load(Ordering::Relaxed)
    }

    pub(crate) fn track_slab(&self, slab: &Arc<HostMemory>, bytes: u64) {
        self.slabs.lock().push((Arc::downgrade(slab), bytes));
    }

    /// Tracks the layout of a laid-out column. A layout that several columns share is counted once.
    pub(crate) fn track_layout(&self, layout: &Arc<SlotLayout>) {
        let mut layouts = self.layouts.lock();
        if !layouts
            .iter()
            .any(|known| ptr::addr_eq(known.as_ptr(), Arc::as_ptr(layout)))
        {
            layouts.push(Arc::downgrade(layout));
        }
    }

    /// Tracks a dictionary. One that several columns share is counted once.
    pub(crate) fn track_dictionary(&self, values: &ArrayRef) {
        let bytes = values.get_buffer_memory_size() as u64;
        let mut dictionaries = self.dictionaries.lock();
        if !dictionaries
            .iter()
            .any(|(known, _)| ptr::addr_eq(known.as_ptr(), Arc::as_ptr(values)))
        {
            dictionaries.push((Arc::downgrade(values), bytes));
        }
    }
}

/// Bytes counted as used until they are released or the reservation is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    ledger: Arc<Ledger>,
    bytes: AtomicU64,
}

impl Reservation {
    pub(crate) fn new(ledger: &Arc<Ledger>) -> Self {
        Self {
            ledger: Arc::clone(ledger),
            bytes: AtomicU64::new(0),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn grow(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.ledger.reserved.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Releases at most `bytes`, never more than is reserved.
    pub(crate) fn shrink(&self, bytes: u64) {
        let before = self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
                Some(held.saturating_sub(bytes))
            })
            .unwrap_or_else(|held| held);
        self.ledger
            .reserved
            .fetch_sub(bytes.min(before), Ordering::Relaxed);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.ledger.reserved.fetch_sub(self.bytes(), Ordering::Relaxed);
    }
}
