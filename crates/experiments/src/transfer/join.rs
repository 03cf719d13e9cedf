//! The probe side of a join over each transfer method: a hash table in the device's memory, and tuples from
//! the host.

use std::time::Instant;

use galatea_device::{Device, DeviceBuffer, In, InOut, Stream};
use galatea_kernels::flow::mix64;
use galatea_kernels::{LinkProbe, Tuples};
use galatea_memory::transfer::{Access, Method, Result, TransferOptions, open};
use rayon::prelude::*;

use super::measure::{Rate, Source, seed_of};

/// Bytes of a tuple: a key and a payload of 8 bytes each, as in workload A of the thesis' table 3.2.
pub const TUPLE_BYTES: usize = 16;
/// Number of probe tuples per build tuple: 2^31 for 2^27 in workload A.
const PROBE_TO_BUILD: usize = 16;
/// Seed of the build side's payloads.
const BUILD_SEED: u64 = 0x6275_696c_6400_0000;

/// A no-partitioning hash join in the shape of workload A, scaled by its probe side. Its hash table is in the
/// device's memory. Keys are 1 to the number of entries, and each probe tuple has one match.
///
/// The thesis' table uses perfect hashing; this one uses linear probing and is half full.
pub struct Join {
    stream: Stream,
    kernel: LinkProbe,
    table: DeviceBuffer<u64>,
    sum: DeviceBuffer<u64>,
    entries: u64,
}

impl Join {
    /// Builds the table for a probe side of `probe_bytes` bytes. The number of entries is a power of two, at
    /// most a sixteenth of the number of probe tuples.
    ///
    /// # Errors
    /// An error of the device.
    pub fn new(device: &Device, probe_bytes: usize) -> Result<Self> {
        let most = (probe_bytes / TUPLE_BYTES / PROBE_TO_BUILD).max(1);
        let entries = 1_u64 << most.ilog2();
        let slots = 2 * entries;
        let mut table = vec![LinkProbe::EMPTY; 2 * slots as usize];
        for key in 1..=entries {
            let mut slot = LinkProbe::slot(key, slots);
            while table[2 * slot as usize] != LinkProbe::EMPTY {
                slot = (slot + 1) % slots;
            }
            table[2 * slot as usize..][..2].copy_from_slice(&[key, mix64(BUILD_SEED ^ key)]);
        }
        let stream = device.stream()?;
        Ok(Self {
            kernel: LinkProbe::new(device)?,
            table: device.upload(&stream, &table)?,
            sum: device.zeroed(&stream, 1)?,
            stream,
            entries,
        })
    }

    /// The rate at which tuples of the host are probed, in bytes of tuples per second: `bytes` per run, in
    /// the options' chunks, both a whole number of tuples. The host writes other tuples before each run.
    ///
    /// # Errors
    /// The errors of [`super::rates`].
    ///
    /// # Panics
    /// If the sum of the payloads of all matches is wrong.
    pub fn rate(
        &mut self,
        device: &Device,
        method: Method,
        bytes: usize,
        options: &TransferOptions,
        runs: usize,
    ) -> Result<Rate> {
        let mut transfer = open(device, method, bytes, options)?;
        let chunk = options.chunk_bytes;
        let mut values = Vec::new();
        for run in 0..=runs {
            let expected = self.fill(transfer.host()?, seed_of(run));
            self.reset()?;
            let start = Instant::now();
            for first in (0..bytes).step_by(chunk) {
                let range = first..(first + chunk).min(bytes);
                let tuples = Tuples {
                    count: (range.len() / TUPLE_BYTES) as u64,
                    address: transfer.bring(&self.stream, range)?,
                };
                self.probe(tuples)?;
            }
            self.stream.synchronize()?;
            let seconds = start.elapsed().as_secs_f64();
            assert_eq!(self.sum()?, expected, "{method}: the sum of payloads");
            if run > 0 {
                values.push(bytes as f64 / seconds);
            }
        }
        Ok(Rate {
            source: Source::Way(method),
            access: Access::Read,
            piece: chunk as u64,
            random: false,
            values,
        })
    }

    /// The stream of all launches.
    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Sets the sum to 0, and waits.
    pub(super) fn reset(&mut self) -> Result<()> {
        self.stream.fill(&mut self.sum, 0)?;
        Ok(self.stream.synchronize()?)
    }

    /// Queues the lookup of tuples, and adds the payloads of the matches to the sum.
    pub(super) fn probe(&mut self, tuples: Tuples) -> Result<()> {
        let sum = InOut(&mut self.sum);
        Ok(self.kernel.launch(&self.stream, tuples, In(&self.table), sum)?)
    }

    /// The sum.
    pub(super) fn sum(&self) -> Result<u64> {
        Ok(self.stream.read(&self.sum, ..)?[0])
    }

    /// Fills the probe tuples with uniform keys. Returns the sum of the payloads of all matches.
    pub(super) fn fill(&self, bytes: &mut [u8], seed: u64) -> u64 {
        let words: &mut [u64] = bytemuck::cast_slice_mut(bytes);
        let tuples = words.par_chunks_exact_mut(TUPLE_BYTES / 8).enumerate();
        let sums = tuples.map(|(row, tuple)| {
            let random = mix64((seed << 40) ^ row as u64);
            let key = 1 + ((u128::from(random) * u128::from(self.entries)) >> 64) as u64;
            let payload = random.rotate_left(32);
            tuple.copy_from_slice(&[key, payload]);
            payload.wrapping_add(mix64(BUILD_SEED ^ key))
        });
        sums.reduce(|| 0, u64::wrapping_add)
    }
}
