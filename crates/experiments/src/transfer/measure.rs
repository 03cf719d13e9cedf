//! What is measured of the link, and the rates of whole transfers.

use galatea_device::Device;
use galatea_memory::transfer::{Access, Capabilities, Meter, Method, Result, TransferOptions, open};

/// What kernels, or the CPU's threads, have used in a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// Host memory, used by kernels over the link.
    Way(Method),
    /// The device's own memory, used by kernels.
    DeviceMemory,
    /// Host memory, used by the CPU's threads.
    Cpu,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Way(method) => method.fmt(f),
            Self::DeviceMemory => f.write_str("device memory"),
            Self::Cpu => f.write_str("CPU"),
        }
    }
}

/// Bytes a second, or nanoseconds of a load; one value a run.
#[derive(Debug, Clone)]
pub struct Rate {
    /// What was used.
    pub source: Source,
    /// How.
    pub access: Access,
    /// Bytes of a piece: what is read or written at one place, or a chunk.
    pub piece: u64,
    /// Whether the pieces were at random places.
    pub random: bool,
    /// Bytes a second, useful ones alone; or nanoseconds.
    pub values: Vec<f64>,
}

/// The seed of the data of an experiment's first run; each run, and each part of one, has the next.
pub const SEED: u64 = 1;

/// The seed of a run's data.
pub(super) fn seed_of(run: usize) -> u64 {
    SEED + run as u64
}

/// The rate of one way: `bytes` once a run, in the options' chunks, both whole numbers of 4 KiB.
///
/// # Errors
/// [`TransferError::Absent`](galatea_memory::transfer::TransferError::Absent); the device's.
///
/// # Panics
/// Where a kernel read or wrote something else than it should.
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

/// The rates of all ways that the device has, for reads and writes.
///
/// # Errors
/// The device's.
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
