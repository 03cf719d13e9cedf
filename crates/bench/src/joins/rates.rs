//! The rates that bound a join: random accesses to a table, and copies of device memory.

use galatea_device::{Device, In, InOut, Out, Stream};
use galatea_kernels::{Accesses, CopyBandwidth, KeyWidth, RandomAccess};

use crate::Result;
use crate::harness::Clock;

/// Bytes of a table that fits the cache of an H200, or a tenth of it.
const NEAR_BYTES: u64 = 8 << 20;

/// Number of copied bytes.
const COPIED_BYTES: u64 = 1 << 30;

/// Number of accesses of a launch on a GPU: some milliseconds.
const ACCESSES: u64 = 1 << 28;

/// Measured rates, per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rates {
    /// Reads of a table of the join's size.
    pub(super) reads: f64,
    /// Writes to that table.
    pub(super) writes: f64,
    /// Reads of a table in the cache.
    pub(super) near_reads: f64,
    /// Writes to that table.
    pub(super) near_writes: f64,
    /// Bytes read and written by a copy in device memory.
    pub(super) copy: f64,
}

impl Rates {
    /// Measures accesses to words of 4 bytes in a table of `bytes` bytes.
    pub(super) fn measure(device: &Device, bytes: u64, runs: usize) -> Result<Self> {
        let stream = device.stream()?;
        let clock = Clock::new(&stream, runs);
        let (reads, writes) = accesses(device, &stream, &clock, bytes)?;
        let (near_reads, near_writes) = accesses(device, &stream, &clock, bytes.min(NEAR_BYTES))?;
        Ok(Self {
            reads,
            writes,
            near_reads,
            near_writes,
            copy: copy(device, &stream, &clock)?,
        })
    }
}

/// Reads and writes per second.
fn accesses(device: &Device, stream: &Stream, clock: &Clock, bytes: u64) -> Result<(f64, f64)> {
    let count = match device.info().emulated {
        true => 1000,
        false => ACCESSES,
    };
    let all = Accesses {
        width: KeyWidth::Four,
        count,
        seed: 12,
    };
    let mut table = device.zeroed::<u8>(stream, bytes.max(4) as usize)?;
    let mut sum = device.zeroed::<u64>(stream, 1)?;
    let access = RandomAccess::new(device)?;
    let writes = clock.sustained(|| Ok(access.write(stream, all, InOut(&mut table))?))?;
    let reads = clock.sustained(|| Ok(access.read(stream, all, In(&table), InOut(&mut sum))?))?;
    let rate = |summary: Option<crate::result::Summary>| {
        summary.map_or(f64::NAN, |summary| count as f64 / summary.median)
    };
    Ok((rate(reads), rate(writes)))
}

/// Bytes per second of a copy, counting reads and writes.
fn copy(device: &Device, stream: &Stream, clock: &Clock) -> Result<f64> {
    let bytes = match device.info().emulated {
        true => 1 << 16,
        false => COPIED_BYTES.min(device.budget().available() / 8),
    };
    let words = (bytes / 16 * 2) as usize;
    let source = device.zeroed::<u64>(stream, words)?;
    let mut target = device.zeroed::<u64>(stream, words)?;
    let kernel = CopyBandwidth::new(device)?;
    let time = clock.sustained(|| Ok(kernel.launch(stream, In(&source), Out(&mut target))?))?;
    Ok(time.map_or(f64::NAN, |time| 2.0 * source.bytes() as f64 / time.median))
}
