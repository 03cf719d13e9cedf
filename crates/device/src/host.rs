//! Host memory that devices copy from and to at the full rate of the link.
//!
//! Pinned memory is what makes a copy run at link speed (55 against 8 GB/s on a PCIe 5 card) and overlap with
//! kernels. The driver's own pinned allocation is slow (2 GB/s: it faults page by page). Faster by ten: map
//! anonymous memory, ask for huge pages, touch it with all threads, and register it when a device first needs
//! it. So memory is allocated without any device ([`HostMemory`]), filled, shared read-only ([`HostView`]),
//! and pinned for a device later ([`crate::Device::pin`]); copies from memory that is not pinned work,
//! slower.
//!
//! # Rules
//! 1. Memory is written only through `&mut HostMemory`; once in an `Arc` it is read-only for Rust, and a
//!    device writes it only through [`crate::Stream::copy_to_host`], which takes the only handle.
//! 2. A registration belongs to one [`PinTable`], that of a context; the table's lock is held across the
//!    driver's call.
//! 3. Memory that is dropped leaves every open table before it is unmapped; a context that closes empties its
//!    table first.
//!
//! By 2 and 3 no registration outlives its memory or its context, whichever goes first; by 1 a copy never
//! races with Rust.

use std::collections::HashMap;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use cudarc::driver::sys::{
    CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_PORTABLE, CUcontext, CUdeviceptr, CUresult,
};
use parking_lot::Mutex;
use rayon::prelude::*;

use crate::context::{Context, driver_error};
use crate::errors::{DeviceError, Result};
use crate::machine_memory::MachineMemory;
use crate::sys::{Code, Driver};

/// Size of a transparent huge page on x86-64 and on most of AArch64.
const HUGE_PAGE: usize = 2 << 20;
/// Bytes one task touches at a time.
const TOUCH: usize = 16 << 20;
/// Requests from this size on are checked against what the system has, so that they fail instead of being
/// killed.
const CHECKED: usize = 64 << 20;

const HINT: &str =
    "lower galatea.store_memory_limit or the data loaded at once, or give the process more memory";

/// Page-aligned, zeroed host memory, backed by huge pages where it is large, unmapped when dropped.
pub struct HostMemory {
    start: NonNull<u8>,
    bytes: usize,
    /// The mapping, which may be longer than what is used of it.
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
    /// [`DeviceError::HostMemory`] when the system has not that much, without taking any.
    pub fn new(bytes: usize) -> Result<Self> {
        let fail = |reason: String| DeviceError::HostMemory {
            requested: bytes as u64,
            available: available_memory().unwrap_or(0),
            reason,
            hint: HINT,
        };
        if bytes >= CHECKED
            && let Some(available) = available_memory()
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
        // SAFETY: `skip` is less than a huge page, and the mapping is two huge pages longer than what is
        // used.
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

    /// Faults every page in, in parallel where there are many.
    fn touch(&self) {
        // SAFETY: sysconf has no preconditions.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) })
            .unwrap_or(4096)
            .max(1);
        let start = self.start.as_ptr() as usize;
        let touch = |range: Range<usize>| {
            for offset in range.step_by(page) {
                // SAFETY: the offset is inside the memory, which nobody else has yet; a zero leaves it as it
                // is.
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

    /// Whether it holds nothing.
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

    /// The bytes, to be filled before sharing.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the exclusive borrow makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    /// Shares the memory and views all of it.
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
        if context.pins.register(self)? {
            self.tables.lock().push(Arc::clone(&context.pins));
        }
        Ok(())
    }

    /// Pins a part, for the time of a copy. Memory that is pinned already stays so.
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

    /// Undoes [`Self::pin_part`], after all work of the device: what a copy uses must not be unpinned under
    /// it.
    pub(crate) fn unpin_part(&self, context: &Context, range: &Range<usize>) -> Result<()> {
        context.synchronize()?;
        context
            .pins
            .unregister_part(self.address() as usize + range.start);
        Ok(())
    }

    pub(crate) fn is_pinned(&self, context: &Context) -> bool {
        self.bytes == 0 || context.pins.contains(self)
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        for table in self.tables.get_mut().drain(..) {
            table.unregister(self.start.as_ptr(), self.bytes);
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
    /// Views `len` bytes from `offset` on.
    ///
    /// # Errors
    /// [`DeviceError::Range`] when they are not all inside the memory.
    pub fn new(memory: Arc<HostMemory>, offset: usize, len: usize) -> Result<Self> {
        let end = checked_end("host view", offset, len, memory.len())?;
        debug_assert!(end <= memory.len(), "checked just now");
        Ok(Self { memory, offset, len })
    }

    /// The memory viewed.
    #[must_use]
    pub fn memory(&self) -> &Arc<HostMemory> {
        &self.memory
    }

    /// First byte of the view in the memory.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it views nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.memory.as_slice()[self.offset..self.offset + self.len]
    }

    /// A part of the view; offsets count from its start.
    ///
    /// # Errors
    /// [`DeviceError::Range`] when it is not inside.
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

/// The host memory registered with one context, by address.
pub(crate) struct PinTable {
    driver: &'static Driver,
    context: CUcontext,
    state: Mutex<PinState>,
}

#[derive(Default)]
struct PinState {
    closed: bool,
    ranges: HashMap<usize, usize>,
    /// Parts of memory, registered for a copy.
    parts: HashMap<usize, usize>,
}

// SAFETY: the context handle may be used from any thread; the driver's calls are made under the lock.
unsafe impl Send for PinTable {}
// SAFETY: as above.
unsafe impl Sync for PinTable {}

impl PinTable {
    pub(crate) fn new(driver: &'static Driver, context: CUcontext) -> Self {
        Self {
            driver,
            context,
            state: Mutex::default(),
        }
    }

    /// Registers memory once; whether that was now. The context is current.
    fn register(&self, memory: &HostMemory) -> Result<bool> {
        let mut state = self.state.lock();
        let address = memory.address();
        if state.closed || state.ranges.contains_key(&(address as usize)) {
            return Ok(false);
        }
        let flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
        // SAFETY: the range is mapped, and stays so until it has been unregistered (rule 3).
        let code = unsafe { (self.driver.cuMemHostRegister_v2)(address.cast(), memory.len(), flags) };
        // Registered by another context of this driver: portable, so it serves this one too.
        if code.is(CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) {
            return Ok(false);
        }
        if code.is(CUresult::CUDA_ERROR_OUT_OF_MEMORY) {
            return Err(DeviceError::HostMemory {
                requested: memory.len() as u64,
                available: available_memory().unwrap_or(0),
                reason: "the driver cannot pin that much".to_owned(),
                hint: HINT,
            });
        }
        if code != Code::SUCCESS {
            return Err(driver_error(self.driver, "cuMemHostRegister", code));
        }
        state.ranges.insert(address as usize, memory.len());
        Ok(true)
    }

    /// Registers a part of memory; whether it was not before.
    fn register_part(&self, address: usize, len: usize) -> Result<bool> {
        let mut state = self.state.lock();
        if state.closed {
            return Ok(false);
        }
        let flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
        // SAFETY: the range is mapped, and stays so until it has been unregistered: its owner holds the
        // memory.
        let code = unsafe { (self.driver.cuMemHostRegister_v2)(address as *mut _, len, flags) };
        if code.is(CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) {
            return Ok(false);
        }
        if code != Code::SUCCESS {
            return Err(driver_error(self.driver, "cuMemHostRegister", code));
        }
        state.parts.insert(address, len);
        Ok(true)
    }

    fn unregister_part(&self, address: usize) {
        let mut state = self.state.lock();
        if state.parts.remove(&address).is_some() && !state.closed {
            self.release(address);
        }
    }

    fn contains(&self, memory: &HostMemory) -> bool {
        self.state
            .lock()
            .ranges
            .contains_key(&(memory.address() as usize))
    }

    /// Address under which the device sees registered memory.
    pub(crate) fn device_address(&self, memory: &HostMemory) -> Result<Option<u64>> {
        let state = self.state.lock();
        if state.closed || !state.ranges.contains_key(&(memory.address() as usize)) {
            return Ok(None);
        }
        let mut address: CUdeviceptr = 0;
        // SAFETY: the pointer is valid for a write and the memory is registered, since the table (locked) has
        // it.
        let code = unsafe {
            (self.driver.cuMemHostGetDevicePointer_v2)(&raw mut address, memory.address().cast(), 0)
        };
        if code != Code::SUCCESS {
            return Err(driver_error(self.driver, "cuMemHostGetDevicePointer", code));
        }
        Ok(Some(address))
    }

    /// Unregisters memory that is about to go, and the parts of it.
    fn unregister(&self, address: *mut u8, len: usize) {
        let mut state = self.state.lock();
        let memory = address as usize..address as usize + len;
        let mut gone: Vec<usize> = state
            .parts
            .extract_if(|part, _| memory.contains(part))
            .map(|(part, _)| part)
            .collect();
        gone.extend(state.ranges.remove(&memory.start).map(|_| memory.start));
        if !state.closed {
            gone.into_iter().for_each(|address| self.release(address));
        }
    }

    /// Unregisters everything: the context is about to go.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let PinState { ranges, parts, .. } = &mut *state;
        for (address, _) in ranges.drain().chain(parts.drain()) {
            self.release(address);
        }
    }

    /// Stops calling the driver: the context is lost, and its registrations with it.
    pub(crate) fn forget(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.ranges.clear();
        state.parts.clear();
    }

    /// Best effort: there is nobody to tell.
    fn release(&self, address: usize) {
        // SAFETY: the context is open (checked under the lock by the callers), and the address was registered
        // with it.
        unsafe {
            (self.driver.cuCtxSetCurrent)(self.context);
            (self.driver.cuMemHostUnregister)(address as *mut _);
        }
    }
}

/// Bytes the system (or this container) can still give, where it tells.
fn available_memory() -> Option<u64> {
    MachineMemory::look().available
}
