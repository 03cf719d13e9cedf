//! Words that host and device store whole, with one writer at a time.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use galatea_device::{Device, Result, SharedMemory};

/// 64-bit words in host memory that a running kernel can access, initially zero.
#[derive(Debug, Clone)]
pub struct Words {
    memory: Arc<SharedMemory>,
    len: usize,
}

impl Words {
    /// Allocates words for a device.
    ///
    /// # Errors
    /// Those of [`SharedMemory::new`].
    pub fn new(device: &Device, len: usize) -> Result<Self> {
        let memory = Arc::new(SharedMemory::new(device, len.max(1) * size_of::<u64>())?);
        Ok(Self { memory, len })
    }

    /// A word, for the host.
    ///
    /// # Panics
    /// If the index is not less than the number of words.
    #[must_use]
    pub fn get(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.len, "word {index} of {}", self.len);
        // SAFETY: the memory is page-aligned, mapped and initialised, and `len` words long; it lives as long
        // as `self`; the host accesses it only by atomics, in this function, and the device by loads and
        // stores of whole words.
        unsafe { AtomicU64::from_ptr(self.memory.pointer().cast::<u64>().add(index)) }
    }

    /// A word's address on the device.
    #[must_use]
    pub fn address(&self, index: usize) -> u64 {
        self.memory.address() + (index * size_of::<u64>()) as u64
    }

    /// Number of words.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
