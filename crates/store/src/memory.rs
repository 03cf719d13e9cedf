//! Stand-in for the device layer's host memory until that is there.

use std::sync::Arc;

/// Page-aligned host memory.
#[derive(Debug)]
pub struct HostMemory {
    bytes: Vec<u8>,
}

impl HostMemory {
    /// Allocates zeroed memory.
    pub fn new(bytes: usize) -> Result<Self, String> {
        Ok(Self { bytes: vec![0; bytes] })
    }
    /// Size.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
    /// All bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }
    /// All bytes, before sharing.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// A range of shared host memory.
#[derive(Debug, Clone)]
pub struct HostView {
    memory: Arc<HostMemory>,
    offset: usize,
    len: usize,
}

impl HostView {
    /// A view.
    pub fn new(memory: Arc<HostMemory>, offset: usize, len: usize) -> Result<Self, String> {
        Ok(Self { memory, offset, len })
    }
    /// Bytes in view.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.memory.as_slice()[self.offset..self.offset + self.len]
    }
    /// The memory viewed.
    pub fn memory(&self) -> &Arc<HostMemory> {
        &self.memory
    }
}
