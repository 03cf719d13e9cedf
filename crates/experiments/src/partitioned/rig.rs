//! The device, its streams and kernels, and the buffers of a pass.

use std::sync::Arc;
use std::time::Instant;

use galatea_device::{Device, DeviceBuffer, Result, SharedMemory, Stream};
use galatea_kernels::{
    RadixAlgorithm, RadixBits, RadixCheck, RadixGather, RadixGrid, RadixHistogram, RadixJoin,
    RadixMaterialise, RadixOffsets, RadixOrder, RadixRefine, RadixRows, RadixScatter, RadixSlices,
    RadixTuples,
};

use super::clock::{Clock, Phase};
use super::data::Inputs;
use super::histogram::histogram;
use crate::runs::median;

/// Rates that bound all algorithms, in bytes per second.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Copies from the host to the device.
    pub to_device: f64,
    /// Copies from the device to the host.
    pub to_host: f64,
    /// Copies in both directions at the same time, together.
    pub both: f64,
    /// Reads and writes of device memory, by a copy on the device.
    pub memory: f64,
}

/// The bytes that an algorithm moves at least.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Over the link to the device.
    pub to_device: u64,
    /// Over the link to the host.
    pub to_host: u64,
    /// Read and written in device memory.
    pub memory: u64,
}

impl std::ops::Add for Bytes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            to_device: self.to_device + other.to_device,
            to_host: self.to_host + other.to_host,
            memory: self.memory + other.memory,
        }
    }
}

impl Bytes {
    /// The seconds that the link needs for these bytes, if both directions work at the same time until one of
    /// them has ended. Together they may have a lower rate than the sum of each alone.
    #[must_use]
    pub fn link_seconds(&self, limits: &Limits) -> f64 {
        let to_device = self.to_device as f64 / limits.to_device;
        let to_host = self.to_host as f64 / limits.to_host;
        let overlapping = self.to_device.min(self.to_host);
        let alone = [
            (self.to_device - overlapping) as f64 / limits.to_device,
            (self.to_host - overlapping) as f64 / limits.to_host,
        ];
        let together = 2.0 * overlapping as f64 / limits.both + alone[0] + alone[1];
        to_device.max(to_host).max(together)
    }

    /// The seconds that device memory needs for these bytes.
    #[must_use]
    pub fn memory_seconds(&self, limits: &Limits) -> f64 {
        self.memory as f64 / limits.memory
    }
}

/// The device with everything that experiments share.
#[derive(Debug)]
pub struct Rig {
    pub(super) device: Device,
    /// The stream of copies from the host, and of gathering.
    pub(super) copies: Stream,
    /// The stream of kernels.
    pub(super) kernels: Stream,
    /// The stream of copies to the host.
    pub(super) spills: Stream,
    pub(super) histogram: RadixHistogram,
    pub(super) offsets: RadixOffsets,
    pub(super) gather: RadixGather,
    pub(super) join: RadixJoin,
    pub(super) refine: RadixRefine,
    pub(super) slices: RadixSlices,
    pub(super) check: RadixCheck,
    pub(super) materialise: RadixMaterialise,
    /// The rates of the machine.
    pub limits: Limits,
    /// Relations that experiments use one after another.
    inputs: Option<Inputs>,
    /// Host memory for state, likewise.
    shared: Option<Arc<SharedMemory>>,
    /// Times of phases, if one stream has all work.
    clock: Option<Clock>,
}

impl Rig {
    /// Loads the kernels, and measures the rates of the machine with copies of `bytes` bytes.
    ///
    /// # Errors
    /// The device's.
    pub fn new(device: &Device, bytes: usize) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            copies: device.stream()?,
            kernels: device.stream()?,
            spills: device.stream()?,
            histogram: RadixHistogram::new(device)?,
            offsets: RadixOffsets::new(device)?,
            gather: RadixGather::new(device)?,
            join: RadixJoin::new(device)?,
            refine: RadixRefine::new(device)?,
            slices: RadixSlices::new(device)?,
            check: RadixCheck::new(device)?,
            materialise: RadixMaterialise::new(device)?,
            limits: limits(device, bytes)?,
            inputs: None,
            shared: None,
            clock: None,
        })
    }

    /// The same kernels with one stream for all work, so that phases do not overlap, and with a clock.
    pub(super) fn serial(&self) -> Self {
        Self {
            device: self.device.clone(),
            copies: self.kernels.clone(),
            kernels: self.kernels.clone(),
            spills: self.kernels.clone(),
            histogram: self.histogram.clone(),
            offsets: self.offsets.clone(),
            gather: self.gather.clone(),
            join: self.join.clone(),
            refine: self.refine.clone(),
            slices: self.slices.clone(),
            check: self.check.clone(),
            materialise: self.materialise.clone(),
            limits: self.limits,
            inputs: None,
            shared: None,
            clock: Some(Clock::default()),
        }
    }

    /// Starts the clock, if there is one.
    pub(super) fn begin(&self) -> Result<()> {
        match &self.clock {
            Some(clock) => clock.begin(&self.kernels),
            None => Ok(()),
        }
    }

    /// Ends a phase, if there is a clock.
    pub(super) fn mark(&self, phase: Phase) -> Result<()> {
        match &self.clock {
            Some(clock) => clock.mark(&self.kernels, phase),
            None => Ok(()),
        }
    }

    /// The seconds of each phase since [`Self::begin`]; none without a clock.
    pub(super) fn phases(&self) -> Result<Vec<(Phase, f64)>> {
        let phases = self
            .clock
            .as_ref()
            .map_or_else(|| Ok(Vec::new()), Clock::phases)?;
        let seconds = |(phase, time): (Phase, std::time::Duration)| (phase, time.as_secs_f64());
        Ok(phases.into_iter().map(seconds).collect())
    }

    /// Takes relations with these numbers of tuples, filled. [`Self::keep`] returns their memory.
    pub(super) fn inputs(&mut self, build: usize, probe: usize, seed: u64) -> Result<Inputs> {
        self.filled((build, probe), build as u64, seed)
    }

    /// Takes a probe side with this number of tuples and keys below it. The build side is one tuple.
    pub(super) fn probe_side(&mut self, tuples: usize, seed: u64) -> Result<Inputs> {
        self.filled((1, tuples), tuples as u64, seed)
    }

    fn filled(&mut self, (build, probe): (usize, usize), domain: u64, seed: u64) -> Result<Inputs> {
        let counts = (build, probe);
        let mut inputs = match self.inputs.take() {
            Some(inputs) if inputs.counts() == counts && inputs.domain() == domain => return Ok(inputs),
            Some(inputs) if inputs.capacity().0 >= build && inputs.capacity().1 >= probe => inputs,
            old => {
                let (old_build, old_probe) = old.as_ref().map_or((0, 0), Inputs::capacity);
                // Host memory may be too small for both.
                drop(old);
                Inputs::new(&self.device, build.max(old_build), probe.max(old_probe))?
            }
        };
        inputs.fill_keys(counts, domain, seed)?;
        Ok(inputs)
    }

    /// Returns memory of relations.
    pub(super) fn keep(&mut self, inputs: Inputs) {
        self.inputs = Some(inputs);
    }

    /// Host memory of at least `bytes` bytes for state. It is the same for all callers.
    pub(super) fn shared(&mut self, bytes: usize) -> Result<Arc<SharedMemory>> {
        if let Some(shared) = self.shared.as_ref().filter(|shared| shared.len() >= bytes) {
            return Ok(Arc::clone(shared));
        }
        self.shared = None;
        let shared = Arc::new(SharedMemory::new(&self.device, bytes)?);
        self.shared = Some(Arc::clone(&shared));
        Ok(shared)
    }

    /// Releases the host memory for state.
    pub(super) fn drop_shared(&mut self) {
        self.shared = None;
    }

    /// Waits for all streams.
    pub(super) fn synchronize(&self) -> Result<()> {
        for stream in [&self.copies, &self.kernels, &self.spills] {
            stream.synchronize()?;
        }
        Ok(())
    }

    /// Multiprocessors of the device.
    pub(super) fn multiprocessors(&self) -> u32 {
        self.device.info().multiprocessors
    }
}

/// Measures the rates of copies.
fn limits(device: &Device, bytes: usize) -> Result<Limits> {
    let (stream, back) = (device.stream()?, device.stream()?);
    let bytes = bytes.max(1 << 16) / 16 * 16;
    let inputs = Inputs::new(device, bytes / 8, 1)?;
    let [view, _] = inputs.build.views(0..bytes / 8)?;
    let shared = SharedMemory::new(device, bytes)?;
    let mut buffers = [
        device.zeroed::<u64>(&stream, bytes / 8)?,
        device.zeroed::<u64>(&stream, bytes / 8)?,
    ];
    buffers[1].used_by(&back)?;
    stream.synchronize()?;
    let mut rates: [Vec<f64>; 4] = Default::default();
    for _ in 0..4 {
        for (which, rates) in rates.iter_mut().enumerate() {
            let start = Instant::now();
            let [first, second] = &mut buffers;
            let factor = match which {
                0 => stream.copy_to_device(&mut *first, &view).map(|()| 1.0)?,
                1 => stream.copy_to_shared(&*first, &shared, 0).map(|()| 1.0)?,
                2 => {
                    stream.copy_to_device(&mut *first, &view)?;
                    back.copy_to_shared(&*second, &shared, 0)?;
                    back.synchronize()?;
                    2.0
                }
                _ => {
                    // Several, so that the launch counts little.
                    for _ in 0..8 {
                        stream.copy(&mut *second, &*first)?;
                    }
                    16.0
                }
            };
            stream.synchronize()?;
            rates.push(factor * bytes as f64 / start.elapsed().as_secs_f64());
        }
    }
    let [to_device, to_host, both, memory] = rates.map(|rates| median(&rates[1..]));
    Ok(Limits {
        to_device,
        to_host,
        both,
        memory,
    })
}

/// The kernels and buffers of a partitioning pass.
#[derive(Debug)]
pub(super) struct Pass {
    scatter: RadixScatter,
    bits: RadixBits,
    order: RadixOrder,
    blocks: u32,
    /// The histogram, and the pass itself.
    phases: [Phase; 2],
    counts: DeviceBuffer<u32>,
    second: DeviceBuffer<u64>,
}

impl Pass {
    /// Allocates the buffers of a pass with at most `blocks` blocks.
    pub(super) fn new(rig: &Rig, algorithm: RadixAlgorithm, bits: RadixBits, blocks: u32) -> Result<Self> {
        let scatter = RadixScatter::new(&rig.device, algorithm)?;
        let blocks = blocks * algorithm.resident();
        let second = scatter.second_words(bits, blocks).max(1);
        Ok(Self {
            bits,
            order: RadixOrder::Partitions,
            blocks,
            phases: [Phase::PrefixSum, Phase::FirstPass],
            counts: rig.device.zeroed(&rig.kernels, blocks as usize * bits.parts())?,
            second: rig.device.alloc(&rig.kernels, second)?.assume_written(),
            scatter,
        })
    }

    /// A second pass.
    pub(super) fn second(self) -> Self {
        Self {
            phases: [Phase::SecondPrefixSum, Phase::SecondPass],
            ..self
        }
    }

    pub(super) fn bits(&self) -> RadixBits {
        self.bits
    }

    /// Queues the histogram and the positions. `starts` is the device address of a word for each partition
    /// and one more.
    pub(super) fn count(&self, rig: &Rig, tuples: RadixTuples, starts: u64) -> Result<RadixGrid> {
        let grid = RadixGrid::new(tuples.count, self.blocks);
        let (stream, counts) = (&rig.kernels, self.counts.address());
        rig.histogram.launch(stream, tuples, self.bits, grid, counts)?;
        rig.offsets
            .launch(stream, (grid, self.bits, self.order), counts, starts)?;
        rig.mark(self.phases[0])?;
        Ok(grid)
    }

    /// Overwrites the positions of an earlier run.
    pub(super) fn clear(&mut self, rig: &Rig) -> Result<()> {
        rig.kernels.fill(&mut self.counts, 0xff)
    }

    /// The first positions of each block in each partition, after [`Self::count`].
    pub(super) fn counts(&self, rig: &Rig) -> Result<Vec<u32>> {
        rig.kernels.read(&self.counts, ..)
    }

    /// As [`Self::count`], but the CPU counts, and waits for earlier work.
    pub(super) fn count_on_cpu(&mut self, rig: &Rig, keys: &[u64], starts: u64) -> Result<RadixGrid> {
        let grid = RadixGrid::new(keys.len() as u64, self.blocks);
        let counts = histogram(keys, grid, self.bits);
        let stream = &rig.kernels;
        stream.copy_from_slice(self.counts.slice_mut(..counts.len())?, &counts)?;
        let address = self.counts.address();
        rig.offsets
            .launch(stream, (grid, self.bits, self.order), address, starts)?;
        rig.mark(self.phases[0])?;
        Ok(grid)
    }

    /// Queues the partitioning after [`Self::count`].
    pub(super) fn scatter(
        &self,
        rig: &Rig,
        tuples: RadixTuples,
        grid: RadixGrid,
        output: RadixRows,
    ) -> Result<()> {
        let (counts, second) = (self.counts.address(), self.second.address());
        let stream = &rig.kernels;
        self.scatter
            .launch(stream, tuples, (grid, self.bits), counts, output, second)?;
        rig.mark(self.phases[1])
    }

    /// Queues all steps.
    pub(super) fn run(&self, rig: &Rig, tuples: RadixTuples, output: RadixRows, starts: u64) -> Result<()> {
        let grid = self.count(rig, tuples, starts)?;
        self.scatter(rig, tuples, grid, output)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use galatea_device::{DeviceOptions, EmulatorOptions};

    use super::*;

    /// Partitioned tuples have different keys, and others after each refresh.
    #[test]
    fn probe_sides_have_uniform_keys() {
        let device = Device::emulated(EmulatorOptions::default(), DeviceOptions::default()).unwrap();
        let mut rig = Rig::new(&device, 1 << 16).unwrap();
        let mut inputs = rig.probe_side(5000, 1).unwrap();
        let keys = |inputs: &Inputs| inputs.probe.columns().0.to_vec();
        let distinct: HashSet<u64> = keys(&inputs).into_iter().collect();
        // 1 - 1/e of 5000.
        assert!((3000..3300).contains(&distinct.len()), "{}", distinct.len());
        assert!(distinct.into_iter().all(|key| key < 5000));
        for _ in 0..2 {
            let before = keys(&inputs);
            inputs.refresh(7).unwrap();
            assert_ne!(keys(&inputs), before);
            let (keys, values) = inputs.probe.columns();
            let hashes = keys.iter().zip(values);
            let hashes = hashes.map(|(key, value)| RadixCheck::hash(*key, *value));
            assert_eq!(inputs.hash(), hashes.fold(0, u64::wrapping_add));
        }
    }
}
