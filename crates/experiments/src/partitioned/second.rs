//! The second half of the Triton join: partitions are gathered by one stream, and partitioned and joined by
//! another.

use galatea_device::{DeviceBuffer, Event, Result};
use galatea_kernels::{
    RADIX_TUPLE_BYTES, RadixBits, RadixPair, RadixRows, RadixSlice, RadixTuples, RadixValues,
};

use super::clock::Phase;
use super::options::Options;
use super::rig::{Pass, Rig};
use super::state::{Batch, batches};

/// Words of a tuple.
const WORDS: usize = RADIX_TUPLE_BYTES / 8;

/// The pieces of a partition after the first pass: addresses and numbers of rows.
pub(super) type Pieces = Vec<(u64, u32)>;

/// The buffers of the second half.
#[derive(Debug)]
struct Buffers {
    pass: Pass,
    /// Partitions gathered, two per side.
    gathered: [[DeviceBuffer<u64>; 2]; 2],
    /// Partitions of the second pass, by side.
    rows: [DeviceBuffer<u64>; 2],
    starts: [DeviceBuffer<u32>; 2],
    /// Rows of the buffers of each side.
    room: [u32; 2],
}

/// A step of the second half: a batch of the build side with one of the probe side.
struct Step {
    build: Batch,
    probe: Batch,
    /// Whether the build side's batch differs from that of the step before.
    new_build: bool,
}

/// The second half of joins, with its buffers.
#[derive(Debug)]
pub(super) struct SecondHalf {
    options: Options,
    /// Bits of the second pass.
    bits: RadixBits,
    buffers: Option<Buffers>,
}

impl SecondHalf {
    pub(super) fn new(options: Options, bits: RadixBits) -> Self {
        Self {
            options,
            bits,
            buffers: None,
        }
    }

    /// Gathers, partitions and joins all pairs of partitions.
    ///
    /// The sums are added to the two values at device address `sums`. Keys are less than `domain`.
    pub(super) fn run(
        &mut self,
        rig: &Rig,
        (build, probe): (&[Pieces], &[Pieces]),
        domain: u64,
        sums: u64,
    ) -> Result<()> {
        let mut slices = Vec::new();
        let mut steps = Vec::new();
        let mut room = [1u32; 2];
        for (build, probe) in build.iter().zip(probe) {
            let build = batches(build, self.options.batch, &mut slices);
            let probe = batches(probe, self.options.batch, &mut slices);
            for build in build {
                room[0] = room[0].max(build.rows);
                for (number, probe) in probe.iter().enumerate() {
                    room[1] = room[1].max(probe.rows);
                    steps.push(Step {
                        build,
                        probe: *probe,
                        new_build: number == 0,
                    });
                }
            }
        }
        if steps.is_empty() {
            return Ok(());
        }
        let most = self.options.multiprocessors.min(rig.multiprocessors()).max(1);
        // A few multiprocessors copy, the others partition and join.
        let gathering = (most / 6).max(1);
        let computing = most.saturating_sub(gathering).max(1);
        let second = match self.buffers.take() {
            Some(second) if second.room[0] >= room[0] && second.room[1] >= room[1] => second,
            _ => self.allocate(rig, room, computing)?,
        };
        let slices: DeviceBuffer<RadixSlice> = rig.device.upload(&rig.kernels, &slices)?;
        let next = rig.device.zeroed::<u32>(&rig.kernels, steps.len())?;
        slices.used_by(&rig.copies)?;
        let table = self.options.table(domain);
        let mut joined: [Option<Event>; 2] = Default::default();
        let mut of_build = 0;
        rig.mark(Phase::Scheduling)?;
        for (number, step) in steps.iter().enumerate() {
            let slot = number % 2;
            if let Some(event) = &joined[slot] {
                rig.copies.wait(event)?;
            }
            let gather = |batch: &Batch, rows: &DeviceBuffer<u64>| {
                let target = (rows.address(), batch.origin);
                let (stream, slices) = (&rig.copies, slices.address());
                rig.gather.launch(stream, slices, batch.slices, target, gathering)
            };
            let partition = |batch: &Batch, from: &DeviceBuffer<u64>, side: usize| {
                let tuples = RadixTuples {
                    keys: from.address(),
                    values: RadixValues::Rows,
                    count: batch.rows.into(),
                };
                let rows = RadixRows::Array(second.rows[side].address());
                second.pass.run(rig, tuples, rows, second.starts[side].address())
            };
            if step.new_build {
                of_build = slot;
                gather(&step.build, &second.gathered[0][of_build])?;
            }
            gather(&step.probe, &second.gathered[1][slot])?;
            rig.mark(Phase::Gather)?;
            rig.kernels.wait(&rig.copies.record()?)?;
            if step.new_build {
                partition(&step.build, &second.gathered[0][of_build], 0)?;
            }
            partition(&step.probe, &second.gathered[1][slot], 1)?;
            let pair = RadixPair {
                build: second.rows[0].address(),
                build_starts: second.starts[0].address(),
                probe: second.rows[1].address(),
                probe_starts: second.starts[1].address(),
            };
            let work = (next.address() + 4 * number as u64, sums);
            let tables = (second.pass.bits(), table, self.options.entries);
            rig.join.launch(&rig.kernels, pair, tables, work, computing)?;
            rig.mark(Phase::Join)?;
            joined[slot] = Some(rig.kernels.record()?);
        }
        self.buffers = Some(second);
        Ok(())
    }

    fn allocate(&self, rig: &Rig, room: [u32; 2], blocks: u32) -> Result<Buffers> {
        let rows = |side: usize| {
            // Room for other runs, whose partitions have slightly more rows.
            let words = WORDS * (room[side] as usize + room[side] as usize / 16 + 64);
            let rows = rig.device.alloc::<u64>(&rig.kernels, words)?.assume_written();
            rows.used_by(&rig.copies)?;
            Ok::<_, galatea_device::DeviceError>(rows)
        };
        let bits = self.bits;
        let starts = || rig.device.zeroed::<u32>(&rig.kernels, bits.parts() + 1);
        Ok(Buffers {
            pass: Pass::new(rig, self.options.second, bits, blocks)?.second(),
            gathered: [[rows(0)?, rows(0)?], [rows(1)?, rows(1)?]],
            rows: [rows(0)?, rows(1)?],
            starts: [starts()?, starts()?],
            room: room.map(|rows| rows + rows / 16),
        })
    }
}
