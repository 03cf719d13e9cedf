//! Host memory that a device and the host use at the same time.
//!
//! [`HostMemory`] is read-only for Rust once a device may copy it. Memory through which a kernel and the host
//! communicate while the kernel runs needs the opposite. Both write, each in the places that a protocol
//! assigns to it, and the words that hand a place over are read while the other side writes them. This type
//! owns such memory, pinned and mapped for one device. It returns addresses and atomic words, never
//! references to plain data, since only the protocol determines which side may access which place.
//!
//! The protocol is defined by the crate that has both of its sides, device code and host code:
//! `galatea_kernels::flow`.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::device::Device;
use crate::errors::Result;
use crate::host::HostMemory;

/// Page-aligned host memory, initially zero, that kernels of one device access over the link while the host
/// uses it. It is unpinned and unmapped when dropped, so the launcher of a kernel that uses it holds it until
/// the kernel has ended.
#[derive(Debug)]
pub struct SharedMemory {
    memory: Arc<HostMemory>,
    address: u64,
}

impl SharedMemory {
    /// Maps, touches and pins memory for a device.
    ///
    /// # Errors
    /// [`crate::DeviceError::HostMemory`] if the system has too little memory or cannot pin it; the errors of
    /// the device.
    pub fn new(device: &Device, bytes: usize) -> Result<Self> {
        let memory = Arc::new(HostMemory::new(bytes.max(1))?);
        let address = device.pin_mapped(&memory)?;
        Ok(Self { memory, address })
    }

    /// Size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether it contains no bytes: always false.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    pub(crate) fn memory(&self) -> &Arc<HostMemory> {
        &self.memory
    }

    /// Its first byte, for the host. Reading and writing through the pointer is unsafe: see the module's
    /// documentation.
    #[must_use]
    pub fn pointer(&self) -> *mut u8 {
        self.memory.address()
    }

    /// Its words, for the host. Kernels may read and write other words at the same time; a protocol
    /// determines which side writes which word, and when the other one reads it.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the memory is mapped, page-aligned, initialised and at least this long; every access
        // through the slice is atomic, and the slice does not outlive the memory.
        unsafe { std::slice::from_raw_parts(self.pointer().cast::<AtomicU64>(), self.len() / 8) }
    }

    /// Its first byte, for kernels of its device.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }
}
