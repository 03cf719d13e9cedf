//! Partitioning alone: figures 4.3, 4.18 and 4.19.

use std::time::{Duration, Instant};

use galatea_device::{DeviceBuffer, Result};
use galatea_kernels::{RADIX_MOST_BITS, RadixAlgorithm, RadixBits, RadixRows, RadixTuples, RadixValues};

use super::alone::CpuToDevice;
use super::data::Inputs;
use super::figure::{Figure, STAGED};
use super::options::{First, Options};
use super::rig::{Bytes, Pass, Rig};
use super::row::Row;
use super::triton::Join;

impl Figure<'_> {
    /// Figure 4.3: 512 partitions by each processor, in each memory.
    pub(super) fn destinations(&mut self) -> Result<()> {
        const BITS: u32 = 9;
        let workload = (0, self.scale.partitioned);
        let tuples = workload.1 * self.scale.million;
        let mut inputs = self.rig.probe_side(tuples, 1)?;
        let bits = RadixBits {
            shift: 0,
            bits: BITS,
            raw: false,
        };
        let columns = 16 * tuples as u64;
        for (destination, limit) in [("device", u64::MAX), ("host", 0)] {
            for first in [First::Direct(RadixAlgorithm::Hierarchical), STAGED, First::Cpu] {
                let mut seconds = Vec::new();
                let spilled = if destination == "host" { columns } else { 0 };
                let mut bytes = Bytes {
                    to_device: columns,
                    to_host: spilled,
                    memory: columns - spilled,
                };
                if first == First::Cpu && destination == "device" {
                    let mut cpu = CpuToDevice::new(self.rig, tuples, bits, self.scale.task_bits)?;
                    for run in 0..self.scale.runs {
                        inputs.refresh(2000 + run as u64)?;
                        seconds.push(cpu.run(self.rig, &inputs)?);
                    }
                } else {
                    let options = Options {
                        first,
                        limit,
                        bits: Some((BITS, 1)),
                        ..self.options()
                    };
                    let mut join = Join::new(self.rig, &inputs, options)?;
                    for run in 0..self.scale.runs {
                        inputs.refresh(2000 + run as u64)?;
                        let run = join.partition(self.rig, &inputs)?;
                        seconds.push(run.counting + run.partitioning);
                    }
                    // Of the probe side alone.
                    [bytes, _] = join.bytes(tuples as u64);
                }
                let row = self.row(workload, ("partitions", f64::from(1u32 << BITS)));
                (self.out)(Row {
                    experiment: match destination {
                        "host" => "partitioning to the host",
                        _ => "partitioning to the device",
                    },
                    algorithm: first.to_string(),
                    seconds,
                    bytes,
                    spilled: spilled as f64 / columns.max(1) as f64,
                    bits: (BITS, 0),
                    ..row
                });
            }
        }
        self.bounds_of(workload, &inputs);
        self.rig.keep(inputs);
        Ok(())
    }

    /// Times of copies, and of reads by the CPU, that bound partitioning.
    fn bounds_of(&mut self, workload: (usize, usize), inputs: &Inputs) {
        let columns = 16.0 * inputs.probe.count as f64;
        let limits = self.rig.limits;
        let mut reads = Vec::new();
        for _ in 0..self.scale.runs {
            let begun = Instant::now();
            let hash = inputs.hash_by_cpu();
            reads.push(begun.elapsed().as_secs_f64());
            assert_eq!(hash, inputs.hash(), "hashes of tuples that the CPU reads");
        }
        for (algorithm, seconds) in [
            ("copies to the device", vec![columns / limits.to_device]),
            ("copies in both directions", vec![2.0 * columns / limits.both]),
            ("a copy in device memory", vec![2.0 * columns / limits.memory]),
            ("reads and hashes by the CPU", reads),
        ] {
            let row = self.row(workload, ("partitions", 512.0));
            (self.out)(Row {
                experiment: "bound",
                algorithm: algorithm.to_owned(),
                seconds,
                ..row
            });
        }
    }

    /// Figure 4.18: one pass from host memory to host memory, by fanout.
    pub(super) fn across_the_link(&mut self) -> Result<()> {
        let workload = (0, self.scale.partitioned);
        let tuples = workload.1 * self.scale.million;
        let mut inputs = self.rig.probe_side(tuples, 1)?;
        let published = RadixAlgorithm::PUBLISHED.map(First::Direct);
        for first in published.into_iter().chain([STAGED]) {
            let fanouts = self.scale.link_fanouts.clone();
            // The standard algorithm takes long.
            let each = if first == First::Direct(RadixAlgorithm::Standard) {
                2
            } else {
                1
            };
            for bits in fanouts.into_iter().step_by(each) {
                let options = Options {
                    first,
                    limit: 0,
                    bits: Some((bits, 1)),
                    ..self.options()
                };
                let mut join = Join::new(self.rig, &inputs, options)?;
                let mut seconds = Vec::new();
                for run in 0..self.scale.runs {
                    inputs.refresh(2000 + run as u64)?;
                    seconds.push(join.partition(self.rig, &inputs)?.partitioning);
                }
                let bytes = 16 * tuples as u64;
                let staged = matches!(first, First::Staged(_));
                let row = self.row(workload, ("fanout", f64::from(1 << bits)));
                (self.out)(Row {
                    experiment: "partitioning",
                    algorithm: first.to_string(),
                    seconds,
                    bytes: Bytes {
                        to_device: bytes,
                        to_host: bytes,
                        memory: if staged { 9 * bytes / 2 } else { 0 },
                    },
                    spilled: 1.0,
                    bits: (bits, 0),
                    ..row
                });
            }
        }
        self.rig.keep(inputs);
        Ok(())
    }

    /// Figure 4.19: one pass in device memory, by fanout.
    pub(super) fn in_memory(&mut self) -> Result<()> {
        let tuples = self.scale.partitioned * self.scale.million;
        let inputs = self.rig.probe_side(tuples, 1)?;
        let mut pass = InMemory::new(self.rig, &inputs)?;
        for algorithm in RadixAlgorithm::ALL {
            for bits in self.scale.fanouts.clone() {
                let mut seconds = Vec::new();
                let mut counting = Vec::new();
                for _ in 0..self.scale.runs {
                    let [count, scatter] = pass.run(self.rig, &inputs, algorithm, bits)?;
                    counting.push(count.as_secs_f64());
                    seconds.push(scatter.as_secs_f64());
                }
                for (experiment, seconds, memory) in [
                    ("partitioning", seconds, 32 * tuples),
                    ("counting", counting, 8 * tuples),
                ] {
                    let row = self.row((0, self.scale.partitioned), ("fanout", f64::from(1 << bits)));
                    (self.out)(Row {
                        experiment,
                        algorithm: algorithm.to_string(),
                        seconds,
                        bytes: Bytes {
                            memory: memory as u64,
                            ..Bytes::default()
                        },
                        bits: (bits, 0),
                        ..row
                    });
                }
            }
        }
        drop(pass);
        self.rig.keep(inputs);
        Ok(())
    }
}

/// A pass with input and output in device memory.
struct InMemory {
    keys: DeviceBuffer<u64>,
    values: DeviceBuffer<u64>,
    rows: DeviceBuffer<u64>,
    starts: DeviceBuffer<u32>,
    sums: DeviceBuffer<u64>,
}

impl InMemory {
    fn new(rig: &Rig, inputs: &Inputs) -> Result<Self> {
        let tuples = inputs.probe.count;
        let [keys_view, values_view] = inputs.probe.views(0..tuples)?;
        let mut keys = rig.device.alloc::<u64>(&rig.kernels, tuples)?;
        let mut values = rig.device.alloc::<u64>(&rig.kernels, tuples)?;
        rig.kernels.copy_to_device(&mut keys, &keys_view)?;
        rig.kernels.copy_to_device(&mut values, &values_view)?;
        Ok(Self {
            keys: keys.assume_written(),
            values: values.assume_written(),
            rows: rig.device.zeroed(&rig.kernels, 2 * tuples)?,
            starts: rig.device.zeroed(&rig.kernels, (1 << RADIX_MOST_BITS) + 1)?,
            sums: rig.device.zeroed(&rig.kernels, 2)?,
        })
    }

    /// Partitions by `bits` bits. Returns the times of counting and of partitioning.
    fn run(
        &mut self,
        rig: &Rig,
        inputs: &Inputs,
        algorithm: RadixAlgorithm,
        bits: u32,
    ) -> Result<[Duration; 2]> {
        let bits = RadixBits {
            shift: 0,
            bits,
            raw: false,
        };
        let count = inputs.probe.count as u64;
        let tuples = RadixTuples {
            keys: self.keys.address(),
            values: RadixValues::Column(self.values.address()),
            count,
        };
        let stream = &rig.kernels;
        stream.fill(&mut self.rows, 0x5a)?;
        stream.fill(&mut self.sums, 0)?;
        let pass = Pass::new(rig, algorithm, bits, rig.multiprocessors())?;
        let output = RadixRows::Array(self.rows.address());
        let begun = stream.record()?;
        let grid = pass.count(rig, tuples, self.starts.address())?;
        let counted = stream.record()?;
        pass.scatter(rig, tuples, grid, output)?;
        let done = stream.record()?;
        let starts = (self.starts.address(), bits.parts());
        rig.check
            .launch(stream, (output, count), starts, bits, self.sums.address())?;
        let found = stream.read(&self.sums, ..)?;
        assert_eq!(
            found,
            [inputs.hash(), 0],
            "{algorithm}: hashes of tuples, and misplaced tuples"
        );
        Ok([counted.elapsed_since(&begun)?, done.elapsed_since(&counted)?])
    }
}
