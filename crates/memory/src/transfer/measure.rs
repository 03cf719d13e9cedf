//! How fast the ways are: for experiments, and for choosing one by calibration.

use std::time::Instant;

use galatea_device::{Device, DeviceBuffer, LinkRates, Stream};
use galatea_kernels::{LinkAccess, Pieces};
use rayon::prelude::*;

use super::{Capabilities, Method, Result, Source, Transfer, TransferOptions, open};

/// How data are accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read it.
    Read,
    /// Write it.
    Write,
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

/// Tools of a measurement: kernel, stream, and a place for sums.
pub(super) struct Bench {
    pub(super) kernel: LinkAccess,
    pub(super) stream: Stream,
    pub(super) sum: DeviceBuffer<u64>,
}

impl Bench {
    pub(super) fn new(device: &Device) -> Result<Self> {
        let stream = device.stream()?;
        Ok(Self {
            kernel: LinkAccess::new(device)?,
            sum: device.zeroed(&stream, 1)?,
            stream,
        })
    }

    /// Moves all bytes once, in chunks; seconds. Sums of values read, and values written, are checked.
    fn once(
        &mut self,
        transfer: &mut dyn Transfer,
        chunk: usize,
        access: Access,
        seed: u64,
    ) -> Result<(f64, bool)> {
        let (expected, bytes) = self.prepare(transfer, seed)?;
        let start = Instant::now();
        self.go(transfer, chunk, access, (seed, bytes))?;
        let seconds = start.elapsed().as_secs_f64();
        Ok((seconds, self.is_right(transfer, chunk, access, (seed, expected))?))
    }

    /// Fills the host's memory with other values than before; their sum, and the bytes.
    pub(super) fn prepare(&mut self, transfer: &mut dyn Transfer, seed: u64) -> Result<(u64, usize)> {
        let memory = transfer.host()?;
        let prepared = (fill(memory, seed), memory.len());
        self.stream.fill(&mut self.sum, 0)?;
        self.stream.synchronize()?;
        Ok(prepared)
    }

    /// Moves all bytes once, in chunks; returns when they have been.
    pub(super) fn go(
        &mut self,
        transfer: &mut dyn Transfer,
        chunk: usize,
        access: Access,
        (seed, bytes): (u64, usize),
    ) -> Result<()> {
        const PIECE: u64 = 4096;
        for first in (0..bytes).step_by(chunk) {
            let range = first..(first + chunk).min(bytes);
            let address = match access {
                Access::Read => transfer.bring(&self.stream, range.clone())?,
                Access::Write => transfer.room(&self.stream, range.clone())?,
            };
            let len = range.len() as u64;
            let pieces = Pieces {
                address,
                bytes: len,
                piece: PIECE.min(len),
                count: len.div_ceil(PIECE),
                random: false,
                writes: access == Access::Write,
                seed,
            };
            self.kernel.launch(&self.stream, pieces, &mut self.sum)?;
            if access == Access::Write {
                transfer.collect(&self.stream, range)?;
            }
        }
        Ok(self.stream.synchronize()?)
    }

    /// Whether the kernels have read what was expected, or written what they should.
    pub(super) fn is_right(
        &self,
        transfer: &mut dyn Transfer,
        chunk: usize,
        access: Access,
        (seed, expected): (u64, u64),
    ) -> Result<bool> {
        Ok(match access {
            Access::Read => self.stream.read(&self.sum, ..)? == [expected],
            Access::Write => {
                let words = transfer.host()?;
                let words: &[u32] = bytemuck::cast_slice(words);
                words.par_chunks(chunk / 4).all(|chunk| {
                    chunk
                        .iter()
                        .enumerate()
                        .all(|(word, value)| *value == LinkAccess::written(seed, word as u64))
                })
            }
        })
    }
}

/// The seed of the data of an experiment's first run; each run, and each part of one, has the next.
pub const SEED: u64 = 1;

/// The seed of a run's data.
pub(super) fn seed_of(run: usize) -> u64 {
    SEED + run as u64
}

/// Bytes that a task of the host's fills or checks at a time.
const TASK_BYTES: usize = 1 << 20;

/// Fills bytes with words that differ, by all threads; their wrapping sum.
pub(super) fn fill(bytes: &mut [u8], seed: u64) -> u64 {
    const TASK: usize = TASK_BYTES / 4;
    let words: &mut [u32] = bytemuck::cast_slice_mut(bytes);
    let tasks = words.par_chunks_mut(TASK).enumerate();
    let sums = tasks.map(|(task, words)| {
        let mut sum = 0_u64;
        for (word, value) in words.iter_mut().enumerate() {
            *value = LinkAccess::written(!seed, (task * TASK + word) as u64);
            sum = sum.wrapping_add(u64::from(*value));
        }
        sum
    });
    sums.reduce(|| 0, u64::wrapping_add)
}

/// The rate of one way: `bytes` once a run, in the options' chunks, both whole numbers of 4 KiB.
///
/// # Errors
/// [`super::TransferError::Absent`]; the device's.
///
/// # Panics
/// Where a kernel read or wrote something else than it should.
pub fn rate(
    device: &Device,
    method: Method,
    access: Access,
    bytes: usize,
    options: &TransferOptions,
    runs: usize,
) -> Result<Rate> {
    let mut bench = Bench::new(device)?;
    let mut transfer = open(device, method, bytes, options)?;
    let mut values = Vec::new();
    for run in 0..=runs {
        let (seconds, right) = bench.once(&mut *transfer, options.chunk_bytes, access, seed_of(run))?;
        assert!(right, "{method}, {access:?}: the kernel saw or left other bytes");
        if run > 0 {
            values.push(bytes as f64 / seconds);
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

/// The rates of all ways that the device has, for reads and writes, for a calibration.
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

/// The rates at which kernels read by each way that the device has, for its calibration.
///
/// # Errors
/// The device's.
pub fn link_rates(device: &Device, bytes: usize) -> Result<LinkRates> {
    let capabilities = Capabilities::probe(device);
    let options = TransferOptions {
        chunk_bytes: TransferOptions::default().chunk_bytes.min(bytes),
        ..TransferOptions::default()
    };
    let mut rates = LinkRates::default();
    for method in Method::ALL {
        if capabilities.has(method).is_ok() {
            let mut measured = rate(device, method, Access::Read, bytes, &options, 3)?.values;
            measured.sort_by(f64::total_cmp);
            *method.rate_in(&mut rates) = measured.get(measured.len() / 2).copied();
        }
    }
    Ok(rates)
}
