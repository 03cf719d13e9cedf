//! The device-memory budget: one limit per device and process. An allocation beyond it fails exactly as on a
//! full card.
//!
//! Every device allocation of this crate is charged here before the driver is called, and the charge is
//! returned when the memory is freed. The charge equals the memory that the driver uses: sizes are rounded up
//! to [`GRANULARITY`] and requested at that size, so the sum of charges equals the driver's own figure of
//! bytes in use (a test compares them).
//!
//! Not charged: the driver's own context (some hundred MiB on a card) and loaded modules, which exist whether
//! queries run or not; and the slack that the driver's pool keeps for reuse after a free, which it releases
//! if an allocation needs it.
//!
//! The limit is the smaller of the configured one and the card's memory. An allocation over it fails with
//! [`DeviceError::OutOfMemory`] without any call to the driver. If the card itself is full (because of
//! another process), the driver's refusal becomes the same error. So callers handle both in one way, and
//! tests can exercise it with any limit.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::errors::{DeviceError, Result};

/// Allocations are charged and requested in multiples of this number of bytes, the driver's own unit in a
/// pool.
pub const GRANULARITY: u64 = 512;

pub(crate) const HINT: &str =
    "raise galatea.memory.gpu_limit if the card has more, or lower the memory a query asks for";

/// Device memory in use by this process on one device, and its limit. Lock-free.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: AtomicU64,
    capacity: u64,
    used: AtomicU64,
    peak: AtomicU64,
    allocations: AtomicU64,
}

impl MemoryBudget {
    pub(crate) fn new(capacity: u64, limit: Option<u64>) -> Self {
        Self {
            limit: AtomicU64::new(limit.unwrap_or(capacity).min(capacity)),
            capacity,
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            allocations: AtomicU64::new(0),
        }
    }

    /// The most bytes that may be in use.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit, capped at the card's memory; `None` is all of it. Memory in use is not reclaimed:
    /// allocations fail until enough of it has been freed.
    pub fn set_limit(&self, limit: Option<u64>) {
        self.limit.store(
            limit.unwrap_or(self.capacity).min(self.capacity),
            Ordering::Relaxed,
        );
    }

    /// Bytes in use.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that may still be allocated.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.limit().saturating_sub(self.used())
    }

    /// The most bytes that were in use at one time.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Resets the peak, to measure the next phase's.
    pub fn reset_peak(&self) {
        self.peak.store(self.used(), Ordering::Relaxed);
    }

    /// Number of live allocations.
    #[must_use]
    pub fn allocations(&self) -> u64 {
        self.allocations.load(Ordering::Relaxed)
    }

    /// The charge of an allocation of `bytes`.
    #[must_use]
    pub const fn charge_of(bytes: u64) -> u64 {
        match bytes.checked_next_multiple_of(GRANULARITY) {
            Some(charge) => charge,
            None => u64::MAX,
        }
    }

    /// Charges an allocation. The charge is exact under concurrent calls.
    pub(crate) fn charge(&self, bytes: u64) -> Result<()> {
        let limit = self.limit();
        let charged = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= limit)
            });
        match charged {
            Ok(before) => {
                self.peak.fetch_max(before + bytes, Ordering::Relaxed);
                self.allocations.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(used) => Err(DeviceError::OutOfMemory {
                requested: bytes,
                used,
                limit,
                hint: HINT,
            }),
        }
    }

    /// Returns a charge.
    pub(crate) fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.allocations.fetch_sub(1, Ordering::Relaxed);
    }
}
