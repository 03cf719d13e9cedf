//! Host memory for copies at the full rate of the link.
//!
//! Copies run at link speed (55 against 8 GB/s on a PCIe 5 card) and overlap with kernels only if the host
//! memory is pinned. The driver's own pinned allocation is slow (2 GB/s: it faults page by page). It is
//! faster by ten to map anonymous memory, request huge pages, touch it with all threads, and register it when
//! a device first needs it. So memory is allocated without any device ([`HostMemory`]), filled, shared
//! read-only ([`HostView`]), and pinned for a device later ([`crate::Device::pin`]). Copies from memory that
//! is not pinned work, but are slower.
//!
//! # Rules
//! 1. Memory is written only through `&mut HostMemory`. Once in an `Arc` it is read-only for Rust, and a
//!    device writes it only through [`crate::Stream::copy_to_host`], which takes the only handle.
//! 2. A registration belongs to the [`PinTable`] of one context. The table's lock is held during the driver's
//!    call.
//! 3. Dropped memory is removed from every open table before it is unmapped; the removal waits until the
//!    device no longer uses the memory. A context that closes empties its table first. The table of a lost
//!    device is open until its context is released: copies and kernels that have begun continue for a while.
//!
//! By 2 and 3 no registration outlives its memory or its context, whichever is dropped first; by 1 a copy
//! never races with Rust.

use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use parking_lot::Mutex;
use rayon::prelude::*;

use crate::context::Context;
use crate::errors::{DeviceError, Result};
use crate::machine_memory::MachineMemory;
use crate::pins::{PinTable, host_memory_error};

/// Size of a transparent huge page on x86-64 and on most AArch64 systems.
const HUGE_PAGE: usize = 2 << 20;
/// Number of bytes that one task touches.
const TOUCH: usize = 16 << 20;
/// Requests of at least this size are checked against the available memory of the system, so that they fail
/// instead of the process being killed.
const CHECKED: usize = 64 << 20;

/// Page-aligned, zeroed host memory, backed by huge pages if it is large, unmapped when dropped.
pub struct HostMemory {
    start: NonNull<u8>,
    bytes: usize,
    /// The mapping, which may be longer than the used part.
    mapping: (NonNull<u8>, usize),
    tables: Mutex<Vec<Arc<PinTable>>>,
}

// SAFETY: the memory is owned by this value, and only written through `&mut` (rule 1).
unsafe impl Send for HostMemory {}
// SAFETY: shared references only read (rule 1); the tables are behind a lock.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Maps and touches memory, in parallel on the calling rayon pool. It reads as zeros.
    ///
    /// # Errors
    /// [`DeviceError::HostMemory`], without allocating, if the system has too little memory.
    pub fn new(bytes: usize) -> Result<Self> {
        let fail = |reason: String| host_memory_error(bytes, reason);
        if bytes >= CHECKED
            && let Some(available) = MachineMemory::look().available
            && bytes as u64 > available
        {
            return Err(fail("the system has less available".to_owned()));
        }
        let huge = bytes >= HUGE_PAGE;
        let length = if huge {
            bytes
                .checked_add(2 * HUGE_PAGE)
                .ok_or_else(|| fail("the size overflows".to_owned()))?
        } else {
            bytes.max(1)
        };
        // SAFETY: an anonymous mapping at an address of the system's choice has no preconditions.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(fail(std::io::Error::last_os_error().to_string()));
        }
        let mapping =
            NonNull::new(address.cast::<u8>()).ok_or_else(|| fail("mapped at address 0".to_owned()))?;
        let skip = if huge {
            mapping.as_ptr().align_offset(HUGE_PAGE)
        } else {
            0
        };
        // SAFETY: `skip` is less than a huge page, and the mapping is two huge pages longer than the used
        // part.
        let start = unsafe { mapping.add(skip) };
        let memory = Self {
            start,
            bytes,
            mapping: (mapping, length),
            tables: Mutex::default(),
        };
        if huge {
            #[cfg(target_os = "linux")]
            // SAFETY: the range (rounded up to a huge page) is inside the mapping; advice does not change its
            // contents.
            unsafe {
                libc::madvise(
                    start.as_ptr().cast(),
                    bytes.next_multiple_of(HUGE_PAGE),
                    libc::MADV_HUGEPAGE,
                );
            }
        }
        memory.touch();
        Ok(memory)
    }

    /// Faults every page in, in parallel if there are many.
    fn touch(&self) {
        // SAFETY: sysconf has no preconditions.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) })
            .unwrap_or(4096)
            .max(1);
        let start = self.start.as_ptr() as usize;
        let touch = |range: Range<usize>| {
            for offset in range.step_by(page) {
                // SAFETY: the offset is inside the memory, which no other thread accesses yet; writing a zero
                // does not change it.
                unsafe { ptr::write_volatile((start + offset) as *mut u8, 0) };
            }
        };
        if self.bytes <= TOUCH {
            touch(0..self.bytes);
        } else {
            (0..self.bytes.div_ceil(TOUCH))
                .into_par_iter()
                .for_each(|part| touch(part * TOUCH..self.bytes.min((part + 1) * TOUCH)));
        }
    }

    /// Size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it contains no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: mapped, initialised by the system, and not written while shared (rule 1).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// The bytes, to be written before sharing.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the exclusive borrow guarantees that this is the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    /// Shares the memory and returns a view of all of it.
    #[must_use]
    pub fn into_view(self) -> HostView {
        let len = self.bytes;
        HostView {
            memory: Arc::new(self),
            offset: 0,
            len,
        }
    }

    pub(crate) fn address(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) fn pin(&self, context: &Context) -> Result<()> {
        if self.bytes == 0 {
            return Ok(());
        }
        context.bind()?;
        if context.pins.register(self.address() as usize, self.bytes)? {
            self.tables.lock().push(Arc::clone(&context.pins));
        }
        Ok(())
    }

    /// Pins a part for the duration of a copy. Memory that is already pinned stays pinned.
    pub(crate) fn pin_part(&self, context: &Arc<Context>, range: &Range<usize>) -> Result<()> {
        let len = range.end.saturating_sub(range.start);
        checked_end("pinning of host memory", range.start, len, self.bytes)?;
        if len == 0 || self.is_pinned(context) {
            return Ok(());
        }
        context.bind()?;
        if context
            .pins
            .register_part(self.address() as usize + range.start, len)?
        {
            let mut tables = self.tables.lock();
            if !tables.iter().any(|table| Arc::ptr_eq(table, &context.pins)) {
                tables.push(Arc::clone(&context.pins));
            }
        }
        Ok(())
    }

    /// Unpins a part that [`Self::pin_part`] pinned, after all work of the device: memory must not be
    /// unpinned while a copy uses it.
    pub(crate) fn unpin_part(&self, context: &Context, range: &Range<usize>) -> Result<()> {
        context.synchronize()?;
        context
            .pins
            .unregister_part(self.address() as usize + range.start);
        Ok(())
    }

    pub(crate) fn is_pinned(&self, context: &Context) -> bool {
        self.bytes == 0 || context.pins.contains(self.address() as usize)
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        for table in self.tables.get_mut().drain(..) {
            table.unregister(self.start.as_ptr() as usize, self.bytes);
        }
        // SAFETY: the mapping is this value's own, and no view of it is left.
        unsafe { libc::munmap(self.mapping.0.as_ptr().cast(), self.mapping.1) };
    }
}

impl std::fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostMemory")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// A range of shared [`HostMemory`]; cheap to clone.
#[derive(Debug, Clone)]
pub struct HostView {
    memory: Arc<HostMemory>,
    offset: usize,
    len: usize,
}

impl HostView {
    /// Creates a view of `len` bytes from `offset` on.
    ///
    /// # Errors
    /// [`DeviceError::Range`] if they are not all inside the memory.
    pub fn new(memory: Arc<HostMemory>, offset: usize, len: usize) -> Result<Self> {
        let end = checked_end("host view", offset, len, memory.len())?;
        debug_assert!(end <= memory.len(), "checked just now");
        Ok(Self { memory, offset, len })
    }

    /// The underlying memory.
    #[must_use]
    pub fn memory(&self) -> &Arc<HostMemory> {
        &self.memory
    }

    /// Offset of the view in the memory.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the view is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.memory.as_slice()[self.offset..self.offset + self.len]
    }

    /// A part of the view. Offsets are relative to its start.
    ///
    /// # Errors
    /// [`DeviceError::Range`] if the part is not inside.
    pub fn slice(&self, range: Range<usize>) -> Result<Self> {
        let len = range.end.saturating_sub(range.start);
        checked_end("host view", range.start, len, self.len)?;
        Ok(Self {
            memory: Arc::clone(&self.memory),
            offset: self.offset + range.start,
            len,
        })
    }
}

pub(crate) fn checked_end(what: &'static str, start: usize, count: usize, len: usize) -> Result<usize> {
    start
        .checked_add(count)
        .filter(|end| *end <= len)
        .ok_or_else(|| DeviceError::Range {
            what,
            start: start as u64,
            end: (start as u64).saturating_add(count as u64),
            len: len as u64,
        })
}
