//! Measures the time of a small chunk transferred over the link: with one launch after each copy, and with
//! one launch for many chunks, which waits for them.

use std::time::{Duration, Instant};

use galatea_device::{
    ChunkTimes, Device, DeviceBuffer, DeviceError, HostMemory, HostView, In, Out, Result, Stream,
};

use crate::kernels::ReadChunks;

/// Values of a chunk: 16 KiB, a third of a microsecond of the link.
const VALUES: usize = 2048;
/// Chunks of a run.
const CHUNKS: usize = 1024;
/// Chunks that one launch waits for.
const TOGETHER: usize = 64;
/// Number of runs; the fastest counts.
const RUNS: usize = 5;

/// Chunks of host memory that are copied to the device and summed there.
struct Chunks {
    read: ReadChunks,
    host: Vec<HostView>,
    expected: Vec<u64>,
    values: DeviceBuffer<u64>,
    sums: DeviceBuffer<u64>,
    arrivals: DeviceBuffer<u32>,
}

/// Measures both methods, and checks their results.
///
/// # Errors
/// [`DeviceError::WrongResult`]; the device's.
pub(super) fn times(device: &Device, seed: u64) -> Result<ChunkTimes> {
    let chunks = if device.info().emulated {
        CHUNKS / 16
    } else {
        CHUNKS
    };
    let (compute, copies) = (device.stream()?, device.stream()?);
    let mut chunks = Chunks::new(device, &compute, chunks, seed)?;
    let mut best = [Duration::MAX; 2];
    for _ in 0..=RUNS {
        for (together, best) in [1, TOGETHER].into_iter().zip(&mut best) {
            *best = (*best).min(chunks.run(&compute, &copies, together)?);
        }
    }
    let [launched, awaited] = best.map(|time| time.as_secs_f64() * 1e9 / chunks.host.len() as f64);
    Ok(ChunkTimes { launched, awaited })
}

impl Chunks {
    fn new(device: &Device, stream: &Stream, chunks: usize, seed: u64) -> Result<Self> {
        let (mut host, mut expected) = (Vec::new(), Vec::new());
        for chunk in 0..chunks {
            let value = |i: usize| (seed ^ ((chunk * VALUES + i) as u64)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut memory = HostMemory::new(VALUES * 8)?;
            for (i, bytes) in memory.as_mut_slice().chunks_exact_mut(8).enumerate() {
                bytes.copy_from_slice(&value(i).to_le_bytes());
            }
            expected.push((0..VALUES).fold(0u64, |sum, i| sum.wrapping_add(value(i))));
            let view = memory.into_view();
            device.pin_if_possible(view.memory())?;
            host.push(view);
        }
        Ok(Self {
            read: ReadChunks::new(device)?,
            host,
            expected,
            values: device.zeroed(stream, chunks * VALUES)?,
            sums: device.zeroed(stream, chunks)?,
            arrivals: device.words(stream, chunks)?,
        })
    }

    /// Processes all chunks, `together` per launch; returns the time from the first call to the end of the
    /// last kernel.
    fn run(&mut self, compute: &Stream, copies: &Stream, together: usize) -> Result<Duration> {
        compute.fill(&mut self.values, 0xa5)?;
        compute.fill(&mut self.sums, 0xa5)?;
        compute.fill(&mut self.arrivals, 0)?;
        compute.synchronize()?;
        let start = Instant::now();
        for first in (0..self.host.len()).step_by(together) {
            let end = (first + together).min(self.host.len());
            for chunk in first..end {
                let place = self.values.slice_mut(chunk * VALUES..(chunk + 1) * VALUES)?;
                copies.copy_to_device(place, &self.host[chunk])?;
                match together {
                    1 => compute.wait(&copies.record()?)?,
                    _ => copies.write_word(self.arrivals.slice_mut(chunk..=chunk)?, 1)?,
                }
            }
            let arrivals = (together > 1).then(|| In(&self.arrivals));
            let sums = Out(&mut self.sums);
            self.read
                .launch(compute, (In(&self.values), VALUES), arrivals, first..end, sums)?;
        }
        compute.synchronize()?;
        let time = start.elapsed();
        let found = compute.read(&self.sums, ..)?;
        let wrong = (self.expected.iter().zip(found)).find(|(expected, found)| *expected != found);
        match wrong {
            Some((&expected, found)) => Err(DeviceError::WrongResult {
                what: "read_chunks",
                expected,
                found,
            }),
            None => Ok(time),
        }
    }
}
