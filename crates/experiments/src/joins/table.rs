//! Hash tables in the memory of the device, of the host, or of both (section 3.4.3).

use galatea_device::{Device, DeviceBuffer, HybridMemory, PageOrder, Result, SharedMemory, Stream};
use galatea_kernels::{JoinHashing, JoinTable};

/// The memory of a hash table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Placement {
    /// The device's memory.
    Device,
    /// Host memory, accessed over the link.
    Host,
    /// Both: at most this number of bytes in the device's memory, the others in the host's.
    Hybrid(u64, PageOrder),
    /// As `Hybrid`, with the others in the memory of another device.
    Peer(u64, PageOrder),
}

impl std::fmt::Display for Placement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Device => "device",
            Self::Host => "host",
            Self::Hybrid(_, PageOrder::DeviceFirst) => "hybrid",
            Self::Hybrid(_, PageOrder::Interleaved) => "hybrid interleaved",
            Self::Peer(0, _) => "other device",
            Self::Peer(_, PageOrder::DeviceFirst) => "two devices",
            Self::Peer(_, PageOrder::Interleaved) => "two devices interleaved",
        })
    }
}

/// Memory for hash tables, of any size up to its own.
#[derive(Debug)]
pub enum TableMemory {
    /// Of the device.
    Device(DeviceBuffer<u8>),
    /// Of the host, which the CPU can access, too.
    Host(SharedMemory),
    /// Of both.
    Hybrid(HybridMemory),
}

impl TableMemory {
    /// Allocates memory. `None` if the device cannot map memory of the host, or of the other device, or if
    /// there is none.
    ///
    /// # Errors
    /// The device's.
    pub fn new(
        (device, peer): (&Device, Option<&Device>),
        stream: &Stream,
        bytes: u64,
        placement: Placement,
    ) -> Result<Option<Self>> {
        let bytes = bytes.next_multiple_of(16);
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mapped = |memory: Option<HybridMemory>| {
            if let Some(memory) = &memory {
                memory.used_by(stream)?;
            }
            Ok(memory.map(Self::Hybrid))
        };
        Ok(match placement {
            Placement::Device => Some(Self::Device(device.alloc::<u8>(stream, len)?.assume_written())),
            Placement::Host => Some(Self::Host(SharedMemory::new(device, len)?)),
            Placement::Hybrid(most, order) => return mapped(device.hybrid(bytes, most, order)?),
            Placement::Peer(most, order) => match peer {
                Some(peer) => return mapped(device.hybrid_on_peer(peer, bytes, most, order)?),
                None => None,
            },
        })
    }

    /// Size in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Device(memory) => memory.bytes(),
            Self::Host(memory) => memory.len() as u64,
            Self::Hybrid(memory) => memory.len(),
        }
    }

    /// Whether it contains no bytes: always false.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    fn address(&self) -> u64 {
        match self {
            Self::Device(memory) => memory.address(),
            Self::Host(memory) => memory.address(),
            Self::Hybrid(memory) => memory.address(),
        }
    }

    /// Fraction of the first `bytes` bytes that is in the device's memory, for pages in order.
    #[must_use]
    pub fn device_share(&self, bytes: u64) -> f64 {
        match self {
            Self::Device(_) => 1.0,
            Self::Host(_) => 0.0,
            Self::Hybrid(memory) => memory.device_bytes().min(bytes) as f64 / bytes.max(1) as f64,
        }
    }

    /// A table at the start of the memory.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] if it is too large.
    pub fn table(&self, hashing: JoinHashing, slots: u64, word_bytes: u32) -> Result<JoinTable> {
        let table = JoinTable {
            address: self.address(),
            slots,
            hashing,
            word_bytes,
        };
        if table.bytes() > self.len() {
            return Err(galatea_device::DeviceError::Range {
                what: "a hash table in its memory",
                start: 0,
                end: table.bytes(),
                len: self.len(),
            });
        }
        Ok(table)
    }
}
