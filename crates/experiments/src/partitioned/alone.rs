//! The first pass alone, over the probe side.

use std::time::Instant;

use galatea_device::{DeviceBuffer, Result};
use galatea_kernels::{RadixBits, RadixRows};

use super::data::Inputs;
use super::host::{HostRows, all_starts};
use super::options::First;
use super::rig::Rig;
use super::triton::{Join, Side};

/// Tasks of the CPU before each copy of their rows to the device.
const TASKS: usize = 32;

/// Seconds of a partitioning.
#[derive(Debug, Clone, Copy)]
pub struct Partitioned {
    /// The histogram of a direct pass, which reads the keys before; 0 for others.
    pub counting: f64,
    /// The kernels and copies after it.
    pub partitioning: f64,
}

impl Join {
    /// Partitions the probe side alone by the first pass, and checks the result, except after `Refined`.
    ///
    /// # Errors
    /// The device's.
    ///
    /// # Panics
    /// If a tuple is missing or in a wrong partition.
    pub fn partition(&mut self, rig: &Rig, inputs: &Inputs) -> Result<Partitioned> {
        let relation = &inputs.probe;
        rig.kernels.fill(&mut self.starts, 0)?;
        rig.synchronize()?;
        let mut begun = Instant::now();
        let mut counting = 0.0;
        let mut of_cpu = None;
        match self.options.first {
            First::Staged(_) | First::Refined(_) => self.stage(rig, relation, Side::Probe)?,
            First::Direct(_) => {
                let list = self.starts_of(Side::Probe as usize);
                let tuples = relation.tuples();
                let grid = self.first.count(rig, tuples, list)?;
                rig.synchronize()?;
                counting = begun.elapsed().as_secs_f64();
                begun = Instant::now();
                if let Some(state) = &self.state {
                    let rows = state.rows_from(self.first_page(Side::Probe));
                    self.first.scatter(rig, tuples, grid, rows)?;
                }
            }
            First::Cpu => {
                if let Some([_, rows]) = &mut self.host {
                    let lists = rows.partition(relation, 0..relation.count, self.bits.0)?;
                    of_cpu = Some((rows.address(), all_starts(&lists, rows.task())));
                }
            }
        }
        rig.synchronize()?;
        let partitioning = begun.elapsed().as_secs_f64();
        let (bits, count) = (self.bits.0, relation.count as u64);
        let lists = bits.parts();
        rig.kernels.fill(&mut self.sums, 0)?;
        let check = |rows, count, list| {
            let (stream, sums) = (&rig.kernels, self.sums.address());
            rig.check.launch(stream, (rows, count), (list, lists), bits, sums)
        };
        let first_page = self.first_page(Side::Probe);
        match (&self.state, self.options.first) {
            (Some(state), First::Staged(_)) => {
                let chunk = 1usize << self.page_bits();
                for (number, start) in (0..relation.count).step_by(chunk).enumerate() {
                    let page = first_page + number;
                    let count = chunk.min(relation.count - start) as u64;
                    check(RadixRows::Array(state.address(page)), count, self.starts_of(page))?;
                }
            }
            (Some(state), First::Direct(_)) => {
                let list = self.starts_of(Side::Probe as usize);
                check(state.rows_from(first_page), count, list)?;
            }
            (_, First::Cpu) => {
                let (rows, starts) = of_cpu.unwrap_or_default();
                check_tasks(rig, (rows, count), &starts, bits, &self.sums)?;
            }
            _ => {}
        }
        if !matches!(self.options.first, First::Refined(_)) {
            assert_partitioned(rig, &self.sums, inputs, self.options.first)?;
        }
        Ok(Partitioned {
            counting,
            partitioning,
        })
    }
}

/// Adds the hashes of rows that the CPU has partitioned, at an address that kernels can access, to `sums`.
fn check_tasks(
    rig: &Rig,
    (rows, count): (u64, u64),
    starts: &[u32],
    bits: RadixBits,
    sums: &DeviceBuffer<u64>,
) -> Result<()> {
    let lists = starts.len().saturating_sub(1);
    let starts = rig.device.upload(&rig.kernels, starts)?;
    let (rows, starts) = ((RadixRows::Array(rows), count), (starts.address(), lists));
    rig.check
        .launch(&rig.kernels, rows, starts, bits, sums.address())?;
    rig.kernels.synchronize()
}

fn assert_partitioned(rig: &Rig, sums: &DeviceBuffer<u64>, inputs: &Inputs, first: First) -> Result<()> {
    let found = rig.kernels.read(sums, ..)?;
    let expected = [inputs.hash(), 0];
    assert_eq!(found, expected, "{first}: hashes of tuples, and misplaced tuples");
    Ok(())
}

/// Partitioning by the CPU to device memory: copy engines transfer rows from two buffers in host memory. Over
/// PCIe the CPU has no addresses of device memory.
pub(super) struct CpuToDevice {
    bits: RadixBits,
    slots: [HostRows; 2],
    /// Tuples of a slot.
    batch: usize,
    rows: DeviceBuffer<u64>,
    sums: DeviceBuffer<u64>,
}

impl CpuToDevice {
    pub(super) fn new(rig: &Rig, tuples: usize, bits: RadixBits, task_bits: u32) -> Result<Self> {
        let batch = TASKS << task_bits;
        let slot = || HostRows::new(&rig.device, batch.min(tuples), task_bits);
        Ok(Self {
            bits,
            slots: [slot()?, slot()?],
            batch,
            rows: rig.device.zeroed(&rig.copies, 2 * tuples)?,
            sums: rig.device.zeroed(&rig.kernels, 2)?,
        })
    }

    /// Partitions the probe side, and checks the result. Returns the seconds.
    pub(super) fn run(&mut self, rig: &Rig, inputs: &Inputs) -> Result<f64> {
        let relation = &inputs.probe;
        rig.copies.fill(&mut self.rows, 0x5a)?;
        rig.kernels.fill(&mut self.sums, 0)?;
        rig.synchronize()?;
        let begun = Instant::now();
        let mut lists = Vec::new();
        for (number, start) in (0..relation.count).step_by(self.batch).enumerate() {
            let range = start..relation.count.min(start + self.batch);
            let count = range.len();
            let slot = &mut self.slots[number % 2];
            lists.extend(slot.partition(relation, range, self.bits)?);
            let view = slot.view(count)?;
            // The other slot is partitioned next, and its copy has ended then.
            rig.copies.synchronize()?;
            let rows = self.rows.slice_mut(2 * start..2 * (start + count))?;
            rig.copies.copy_to_device(rows, &view)?;
        }
        rig.copies.synchronize()?;
        let seconds = begun.elapsed().as_secs_f64();
        let starts = all_starts(&lists, self.slots[0].task());
        let rows = (self.rows.address(), relation.count as u64);
        self.rows.used_by(&rig.kernels)?;
        check_tasks(rig, rows, &starts, self.bits, &self.sums)?;
        assert_partitioned(rig, &self.sums, inputs, First::Cpu)?;
        Ok(seconds)
    }
}
