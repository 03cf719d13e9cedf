//! The kinds of measurements of the link, and the rates of whole transfers.

use galatea_device::Device;
use galatea_memory::transfer::{Access, Capabilities, Meter, Method, Result, TransferOptions, open};

/// A way to read the memory of another device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PeerWay {
    /// Loads of the kernel cross the link.
    InPlace,
    /// Chunks are copied to one of two buffers, while the kernel uses the other.
    Copy,
    /// The same, with a copy per piece of a chunk.
    CopyPieces,
    /// Managed memory, moved before it is used.
    UnifiedPrefetch,
    /// Managed memory, moved when it is accessed.
    UnifiedMigration,
}

impl PeerWay {
    /// All ways.
    pub const ALL: [Self; 5] = [
        Self::InPlace,
        Self::Copy,
        Self::CopyPieces,
        Self::UnifiedPrefetch,
        Self::UnifiedMigration,
    ];
}

impl std::fmt::Display for PeerWay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::InPlace => "in place",
            Self::Copy => "copy by chunk",
            Self::CopyPieces => "copy in pieces",
            Self::UnifiedPrefetch => "unified prefetch",
            Self::UnifiedMigration => "unified migration",
        })
    }
}

/// The memory that kernels, or the CPU's threads, accessed in a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// Host memory, accessed by kernels over the link.
    Way(Method),
    /// The memory of another device, accessed by kernels over the link between the devices.
    Peer(PeerWay),
    /// The device's own memory, accessed by kernels.
    DeviceMemory,
    /// Host memory, accessed by the CPU's threads.
    Cpu,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Way(method) => method.fmt(f),
            Self::Peer(way) => write!(f, "other device {way}"),
            Self::DeviceMemory => f.write_str("device memory"),
            Self::Cpu => f.write_str("CPU"),
        }
    }
}

/// Bytes per second, or nanoseconds per load; one value per run.
#[derive(Debug, Clone)]
pub struct Rate {
    /// The accessed memory.
    pub source: Source,
    /// The kind of access.
    pub access: Access,
    /// Bytes of a piece: the bytes read or written at one place, or a chunk.
    pub piece: u64,
    /// Whether the pieces were at random places.
    pub random: bool,
    /// Bytes per second, counting useful bytes only; or nanoseconds.
    pub values: Vec<f64>,
}

/// The seed of the data of an experiment's first run. Each run, and each part of one, has the next seed.
pub const SEED: u64 = 1;

/// The seed of a run's data.
pub(super) fn seed_of(run: usize) -> u64 {
    SEED + run as u64
}

/// The rate of one transfer method: `bytes` per run, in the options' chunks, both multiples of 4 KiB.
///
/// # Errors
/// [`TransferError::Absent`](galatea_memory::transfer::TransferError::Absent), or an error of the device.
///
/// # Panics
/// If a kernel read or wrote wrong values.
pub(super) fn rate(
    device: &Device,
    method: Method,
    access: Access,
    bytes: usize,
    options: &TransferOptions,
    runs: usize,
) -> Result<Rate> {
    let mut meter = Meter::new(device)?;
    let mut transfer = open(device, method, bytes, options)?;
    let mut values = Vec::new();
    for run in 0..=runs {
        let rate = meter.rate(&mut *transfer, options.chunk_bytes, access, seed_of(run))?;
        if run > 0 {
            values.push(rate);
        }
    }
    Ok(Rate {
        source: Source::Way(method),
        access,
        piece: options.chunk_bytes as u64,
        random: false,
        values,
    })
}

/// The rates of all transfer methods of the device, for reads and writes.
///
/// # Errors
/// An error of the device.
pub fn rates(device: &Device, bytes: usize, options: &TransferOptions, runs: usize) -> Result<Vec<Rate>> {
    let capabilities = Capabilities::probe(device);
    let present = Method::ALL
        .into_iter()
        .filter(|method| capabilities.has(*method).is_ok());
    let mut rates = Vec::new();
    for method in present {
        for access in [Access::Read, Access::Write] {
            rates.push(rate(device, method, access, bytes, options, runs)?);
        }
    }
    Ok(rates)
}
