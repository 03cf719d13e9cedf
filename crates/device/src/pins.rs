//! The host memory that is registered with each context: the tables of pinned [`crate::HostMemory`]. The
//! rules are in `host.rs`.
//!
//! A table identifies memory by address and length only. The memory holds references to its tables, and is
//! removed from them before it is unmapped.

use std::collections::HashMap;

use cudarc::driver::sys::{
    CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_PORTABLE, CUcontext, CUdeviceptr, CUresult,
};
use parking_lot::Mutex;

use crate::errors::{DeviceError, Result};
use crate::machine_memory::MachineMemory;
use crate::sys::Driver;

const HINT: &str =
    "lower galatea.memory.store_limit or the data loaded at once, or give the process more memory";

/// The error for host memory that the system or the driver refuses, with the available memory of the machine.
pub(crate) fn host_memory_error(requested: usize, reason: String) -> DeviceError {
    DeviceError::HostMemory {
        requested: requested as u64,
        available: MachineMemory::look().available.unwrap_or(0),
        reason,
        hint: HINT,
    }
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
    /// Parts of memory that are registered for a copy.
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

    /// Registers memory once. Returns whether this call registered it. The context is current.
    pub(crate) fn register(&self, address: usize, len: usize) -> Result<bool> {
        let mut state = self.state.lock();
        if state.closed || state.ranges.contains_key(&address) {
            return Ok(false);
        }
        let flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
        // SAFETY: the range is mapped, and stays so until it has been unregistered (rule 3 of `host`).
        let code = unsafe { (self.driver.cuMemHostRegister_v2)(address as *mut _, len, flags) };
        // Registered by another context of this driver: portable, so this context can use it, too.
        if code.is(CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) {
            return Ok(false);
        }
        if code.is(CUresult::CUDA_ERROR_OUT_OF_MEMORY) {
            return Err(host_memory_error(
                len,
                "the driver cannot pin that much".to_owned(),
            ));
        }
        self.driver.check("cuMemHostRegister", code)?;
        state.ranges.insert(address, len);
        Ok(true)
    }

    /// Registers a part of memory. Returns whether it was not registered before.
    pub(crate) fn register_part(&self, address: usize, len: usize) -> Result<bool> {
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
        self.driver.check("cuMemHostRegister", code)?;
        state.parts.insert(address, len);
        Ok(true)
    }

    pub(crate) fn unregister_part(&self, address: usize) {
        let mut state = self.state.lock();
        if state.parts.remove(&address).is_some() && !state.closed {
            self.release(address);
        }
    }

    pub(crate) fn contains(&self, address: usize) -> bool {
        self.state.lock().ranges.contains_key(&address)
    }

    /// Address of registered memory on the device.
    pub(crate) fn device_address(&self, address: usize) -> Result<Option<u64>> {
        let state = self.state.lock();
        if state.closed || !state.ranges.contains_key(&address) {
            return Ok(None);
        }
        let mut seen: CUdeviceptr = 0;
        // SAFETY: the pointer is valid for a write and the memory is registered, since the (locked) table
        // contains it.
        self.driver.check("cuMemHostGetDevicePointer", unsafe {
            (self.driver.cuMemHostGetDevicePointer_v2)(&raw mut seen, address as *mut _, 0)
        })?;
        Ok(Some(seen))
    }

    /// Unregisters memory that is about to be unmapped, and the parts of it.
    pub(crate) fn unregister(&self, address: usize, len: usize) {
        let mut state = self.state.lock();
        let memory = address..address + len;
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

    /// Unregisters all memory, before the context is released.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let PinState { ranges, parts, .. } = &mut *state;
        for (address, _) in ranges.drain().chain(parts.drain()) {
            self.release(address);
        }
    }

    /// Best effort: a destructor cannot report to a caller.
    fn release(&self, address: usize) {
        // SAFETY: the context is open (checked under the lock by the callers), and the address was registered
        // with it.
        unsafe {
            (self.driver.cuCtxSetCurrent)(self.context);
            (self.driver.cuMemHostUnregister)(address as *mut _);
        }
    }
}
