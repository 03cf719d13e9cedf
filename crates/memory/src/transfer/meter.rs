//! Measures the rate of a transfer method: kernels read or write all bytes of a transfer, and a check
//! compares them.
//!
//! A calibration stores the rates of reads ([`link_rates`]). Experiments use the same meter.

use std::time::Instant;

use galatea_device::{Device, DeviceBuffer, LinkRates, Stream};
use galatea_kernels::{LinkAccess, Pieces};
use rayon::prelude::*;

use super::{Capabilities, Method, Result, Transfer, TransferOptions, open};

/// Direction of the access to data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read it.
    Read,
    /// Write it.
    Write,
}

/// Moves the bytes of transfers by a kernel, on a stream of its own.
pub struct Meter {
    kernel: LinkAccess,
    stream: Stream,
    sum: DeviceBuffer<u64>,
}

impl Meter {
    /// Creates a meter of a device.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn new(device: &Device) -> Result<Self> {
        let stream = device.stream()?;
        Ok(Self {
            kernel: LinkAccess::new(device)?,
            sum: device.zeroed(&stream, 1)?,
            stream,
        })
    }

    /// Sets the kernels to use `1 / meters` of the device, so that `meters` of them run at the same time.
    #[must_use]
    pub fn beside(mut self, meters: u64) -> Self {
        self.kernel = self.kernel.beside(meters);
        self
    }

    /// Bytes per second at which all bytes of a transfer are moved once, in chunks.
    ///
    /// # Errors
    /// The errors of the transfer.
    ///
    /// # Panics
    /// If a kernel read or wrote wrong values.
    pub fn rate(
        &mut self,
        transfer: &mut dyn Transfer,
        chunk: usize,
        access: Access,
        seed: u64,
    ) -> Result<f64> {
        let (expected, bytes) = self.prepare(transfer, seed)?;
        let start = Instant::now();
        self.go(transfer, chunk, access, (seed, bytes))?;
        let seconds = start.elapsed().as_secs_f64();
        self.check(transfer, chunk, access, (seed, expected))?;
        Ok(bytes as f64 / seconds)
    }

    /// Fills the host's memory with values that depend on the seed. Returns their sum and the number of
    /// bytes.
    ///
    /// # Errors
    /// The errors of the transfer.
    pub fn prepare(&mut self, transfer: &mut dyn Transfer, seed: u64) -> Result<(u64, usize)> {
        let memory = transfer.host()?;
        let prepared = (fill(memory, seed), memory.len());
        self.stream.fill(&mut self.sum, 0)?;
        self.stream.synchronize()?;
        Ok(prepared)
    }

    /// Moves all bytes once, in chunks. Returns when all of them have been moved.
    ///
    /// # Errors
    /// The errors of the transfer.
    pub fn go(
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

    /// Checks that the kernels of the last run have read values with the expected sum, or written the values
    /// of the seed.
    ///
    /// # Errors
    /// The errors of the transfer.
    ///
    /// # Panics
    /// If they have not.
    pub fn check(
        &self,
        transfer: &mut dyn Transfer,
        chunk: usize,
        access: Access,
        (seed, expected): (u64, u64),
    ) -> Result<()> {
        let right = match access {
            Access::Read => self.stream.read(&self.sum, ..)? == [expected],
            Access::Write => {
                let words: &[u32] = bytemuck::cast_slice(transfer.host()?);
                words.par_chunks(chunk / 4).all(|chunk| {
                    chunk
                        .iter()
                        .enumerate()
                        .all(|(word, value)| *value == LinkAccess::written(seed, word as u64))
                })
            }
        };
        let method = transfer.method();
        assert!(right, "{method}, {access:?}: the kernel saw or left other bytes");
        Ok(())
    }
}

/// Number of bytes that a task of the host fills.
const TASK_BYTES: usize = 1 << 20;

/// Fills bytes with different words, by all threads. Returns their wrapping sum.
pub fn fill(bytes: &mut [u8], seed: u64) -> u64 {
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

/// Bytes per second at which kernels read with each method that the device supports, for its calibration.
///
/// # Errors
/// The errors of the device.
pub fn link_rates(device: &Device, bytes: usize) -> Result<LinkRates> {
    let capabilities = Capabilities::probe(device);
    let options = TransferOptions {
        chunk_bytes: TransferOptions::default().chunk_bytes.min(bytes),
        ..TransferOptions::default()
    };
    let mut rates = LinkRates::default();
    for method in Method::ALL {
        if capabilities.has(method).is_ok() {
            *method.rate_in(&mut rates) = Some(reads(device, method, bytes, &options)?);
        }
    }
    Ok(rates)
}

/// The median rate of three reads of all bytes, after a warm-up.
fn reads(device: &Device, method: Method, bytes: usize, options: &TransferOptions) -> Result<f64> {
    let mut meter = Meter::new(device)?;
    let mut transfer = open(device, method, bytes, options)?;
    let mut read = |seed| meter.rate(&mut *transfer, options.chunk_bytes, Access::Read, seed);
    read(0)?;
    let mut rates = [read(1)?, read(2)?, read(3)?];
    rates.sort_by(f64::total_cmp);
    Ok(rates[1])
}
