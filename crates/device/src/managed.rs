//! Managed memory: one address for both processors, and pages that migrate to the one that accesses them.
//!
//! It is only used for comparison with the other transfer methods: pages that a kernel accesses migrate one
//! fault after another, at a fifth of the link's rate. It is charged to the device's budget in full, since
//! all of it may migrate to the device, and a card with more managed memory than its size can hang.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::sys::{CUmemAttach_flags, CUmemLocation, CUmemLocationType};

use crate::budget::MemoryBudget;
use crate::context::Context;
use crate::device::Device;
use crate::errors::Result;
use crate::host::checked_end;
use crate::stream::Stream;
use crate::sys::Managed;

/// The target of a migration of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The device's memory.
    Device,
    /// The host's memory.
    Host,
}

/// Managed memory of one device; freed when dropped, after the device's work is done.
pub struct ManagedMemory {
    context: Arc<Context>,
    table: &'static Managed,
    address: u64,
    bytes: usize,
    charge: u64,
}

impl Device {
    /// Allocates managed memory, zeroed. `None` if the device has none that both processors may access at the
    /// same time, or if its driver lacks the functions.
    ///
    /// # Errors
    /// [`crate::DeviceError::OutOfMemory`] beyond the budget; the device's.
    pub fn managed(&self, bytes: usize) -> Result<Option<ManagedMemory>> {
        let context = self.context();
        let Some(table) = Managed::get(context.backend) else {
            return Ok(None);
        };
        if !context.info.concurrent_managed_access {
            return Ok(None);
        }
        let bytes = bytes.max(1);
        let charge = MemoryBudget::charge_of(bytes as u64);
        context.bind()?;
        context.budget.charge(charge)?;
        // If dropped with address 0, it releases the charge.
        let mut memory = ManagedMemory {
            context: Arc::clone(context),
            table,
            address: 0,
            bytes,
            charge,
        };
        let flags = CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL as u32;
        // SAFETY: the pointer is valid for a write and the context is current.
        let code = unsafe { (table.cuMemAllocManaged)(&raw mut memory.address, bytes, flags) };
        context.check("cuMemAllocManaged", code)?;
        memory.bytes_mut()?.fill(0);
        Ok(Some(memory))
    }
}

impl ManagedMemory {
    /// The address, valid on both processors.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it contains no bytes: always false.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The bytes, for the host. Waits for all work of the device. Accessed pages migrate to the host.
    ///
    /// # Errors
    /// The failure of any work.
    pub fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        self.context.synchronize()?;
        // SAFETY: the memory is mapped for the host and `bytes` long; no work of the device is in progress,
        // and while the slice lives the address for a launch cannot be obtained.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, self.bytes) })
    }

    /// Queues the migration of pages.
    ///
    /// # Errors
    /// [`crate::DeviceError::Range`] for bytes outside; the device's.
    pub fn prefetch(&self, stream: &Stream, range: Range<usize>, to: Side) -> Result<()> {
        let location = match to {
            Side::Device => self.context.memory_location(),
            Side::Host => CUmemLocation {
                type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST,
                id: 0,
            },
        };
        self.migrate(stream, range, location)
    }

    /// Queues the migration of pages to the memory of another device.
    ///
    /// # Errors
    /// Those of [`Self::prefetch`].
    pub fn prefetch_to_peer(&self, stream: &Stream, range: Range<usize>, peer: &Device) -> Result<()> {
        self.migrate(stream, range, peer.context().memory_location())
    }

    fn migrate(&self, stream: &Stream, range: Range<usize>, location: CUmemLocation) -> Result<()> {
        let len = range.end.saturating_sub(range.start);
        checked_end("prefetch of managed memory", range.start, len, self.bytes)?;
        if len == 0 {
            return Ok(());
        }
        self.context.bind()?;
        // SAFETY: the range is inside the memory; the stream is alive and of this context.
        let code = unsafe {
            (self.table.cuMemPrefetchAsync_v2)(
                self.address + range.start as u64,
                len,
                location,
                0,
                stream.handle(),
            )
        };
        stream.check("cuMemPrefetchAsync", code)
    }
}

impl Drop for ManagedMemory {
    fn drop(&mut self) {
        if self.address != 0 && self.context.synchronize().is_ok() {
            // SAFETY: allocated once, freed once, and unused.
            let _ = unsafe { (self.table.cuMemFree_v2)(self.address) };
        }
        self.context.budget.release(self.charge);
    }
}

impl std::fmt::Debug for ManagedMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ManagedMemory[{}]@{:#x}", self.bytes, self.address)
    }
}
