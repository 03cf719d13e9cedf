//! The experiments of chapter 4, by figure.

use std::time::Duration;

use galatea_device::{DeviceBuffer, Result};
use galatea_kernels::{
    RADIX_MOST_BITS, RadixAlgorithm, RadixBits, RadixRows, RadixTable, RadixTuples, RadixValues,
};

use super::data::Inputs;
use super::options::{First, Options};
use super::rig::{Bytes, Pass, Rig};
use super::row::Row;
use super::triton::{Join, Joined};

/// Figures of the thesis, in the order in which they run.
pub const FIGURES: [&str; 9] = [
    "4.12", "4.17", "4.18", "4.19", "4.21", "4.25", "4.23", "4.16", "4.20",
];

/// Experiments without a figure in the thesis, which run by name only.
pub const EXTRA: [&str; 1] = ["chunks"];

/// Staging with the thesis' second half.
const STAGED: First = First::Staged(RadixAlgorithm::Linear);

/// The scale of measurements.
#[derive(Debug, Clone)]
pub struct Scale {
    /// Tuples of a million of the thesis.
    pub million: usize,
    /// Number of runs.
    pub runs: usize,
    /// Millions of tuples of each side of the workloads; all figures use the first two.
    pub sizes: Vec<usize>,
    /// Millions of tuples that are only partitioned.
    pub partitioned: usize,
    /// Fanouts of passes in device memory, as bits.
    pub fanouts: Vec<u32>,
    /// Fanouts of passes across the link, as bits.
    pub link_fanouts: Vec<u32>,
    /// Bits of the first and of the second pass of joins by fanout.
    pub join_fanouts: (Vec<u32>, Vec<u32>),
    /// Bytes of state in device memory: those of the thesis' device.
    pub limit: u64,
    /// Bits of the tuples of a chunk.
    pub chunk_bits: u32,
    /// Bits of the tuples of chunks, for the experiment `chunks`.
    pub chunks: Vec<u32>,
    /// Bits of the rows of a page.
    pub page_bits: u32,
    /// The most entries of a hash table.
    pub entries: u32,
    /// Bytes of copies that measure the machine.
    pub copied: usize,
}

impl Default for Scale {
    fn default() -> Self {
        Self {
            million: 1_000_000,
            runs: 3,
            sizes: vec![128, 512, 1024],
            partitioned: 256,
            fanouts: vec![1, 3, 5, 6, 7, 9, 10, 11],
            link_fanouts: vec![1, 4, 6, 7, 9, 11],
            join_fanouts: (vec![3, 5, 7, 9, 11], vec![7, 9, 11]),
            limit: 16 << 30,
            chunk_bits: 22,
            chunks: vec![20, 21, 22, 23],
            page_bits: 17,
            entries: u32::MAX,
            copied: 1 << 30,
        }
    }
}

impl Scale {
    /// A small scale, to test that everything works.
    #[must_use]
    pub fn small() -> Self {
        Self {
            million: 20,
            runs: 1,
            sizes: vec![128, 512],
            partitioned: 200,
            fanouts: vec![1, 5, 11],
            link_fanouts: vec![1, 7, 11],
            join_fanouts: (vec![1, 3], vec![2, 4]),
            limit: (16 << 30) / 50_000,
            chunk_bits: 10,
            chunks: vec![9, 11],
            page_bits: 7,
            entries: 256,
            copied: 1 << 16,
        }
    }
}

/// Experiments of one figure.
struct Figure<'a> {
    rig: &'a mut Rig,
    scale: &'a Scale,
    figure: &'static str,
    out: &'a mut dyn FnMut(Row),
}

/// Runs the experiments of a figure of [`FIGURES`], or an experiment of [`EXTRA`]. `out` is called with each
/// row once it is measured.
///
/// # Errors
/// An error of the device.
///
/// # Panics
/// If a join or a partitioning has a wrong result.
pub fn run(rig: &mut Rig, figure: &str, scale: &Scale, out: &mut dyn FnMut(Row)) -> Result<()> {
    let Some(figure) = FIGURES.into_iter().chain(EXTRA).find(|known| *known == figure) else {
        return Ok(());
    };
    let mut experiments = Figure {
        rig,
        scale,
        figure,
        out,
    };
    match figure {
        "chunks" => experiments.chunks(),
        "4.12" => experiments.scaling(),
        "4.16" => experiments.processors(),
        "4.17" => experiments.first_passes(),
        "4.18" => experiments.across_the_link(),
        "4.19" => experiments.in_memory(),
        "4.20" => experiments.fanouts(),
        "4.21" => experiments.cache(),
        "4.23" => experiments.ratios(),
        _ => experiments.multiprocessors(),
    }
}

/// Bytes of the state of a workload.
fn state_bytes((build, probe): (usize, usize), million: usize) -> u64 {
    (16 * million * (build + probe)) as u64
}

impl Figure<'_> {
    fn options(&self) -> Options {
        Options {
            limit: self.scale.limit,
            chunk_bits: self.scale.chunk_bits,
            page_bits: self.scale.page_bits,
            entries: self.scale.entries,
            ..Options::new(self.rig)
        }
    }

    /// The two smaller workloads.
    fn workloads(&self) -> Vec<(usize, usize)> {
        let sizes = self.scale.sizes.iter().take(2);
        sizes.map(|size| (*size, *size)).collect()
    }

    /// Joins relations of these millions of tuples, and reports the join, and its two halves.
    fn join(
        &mut self,
        workload: (usize, usize),
        options: Options,
        (parameter, value): (&'static str, f64),
    ) -> Result<()> {
        let million = self.scale.million;
        let mut inputs = self.rig.inputs(workload.0 * million, workload.1 * million, 1)?;
        let mut join = Join::new(self.rig, &inputs, options)?;
        let mut runs = Vec::new();
        for run in 0..self.scale.runs {
            inputs.refresh(1000 + run as u64)?;
            let joined = join.run(self.rig, &inputs)?;
            let expected = [inputs.sum(), (workload.1 * million) as u64];
            assert_eq!(
                joined.sums, expected,
                "sum and number of matches of {}",
                options.first
            );
            runs.push(joined);
        }
        let [first, second] = join.bytes(inputs.tuples());
        let hashing = if options.perfect { " perfect" } else { "" };
        let seconds = |of: fn(&Joined) -> f64| -> Vec<f64> { runs.iter().map(of).collect() };
        for (experiment, seconds, bytes) in [
            ("join", seconds(|run| run.first + run.second), first + second),
            ("first pass", seconds(|run| run.first), first),
            ("second half", seconds(|run| run.second), second),
        ] {
            (self.out)(Row {
                experiment,
                figure: self.figure,
                algorithm: format!("{}{hashing}", options.first),
                workload,
                parameter,
                value,
                tuples: inputs.tuples(),
                seconds,
                bytes,
                spilled: join.spilled(),
                bits: join.bits(),
                limits: self.rig.limits,
            });
        }
        self.rig.keep(inputs);
        Ok(())
    }

    /// Figure 4.12: the Triton join by size, with chains and with perfect hashing, and the middle size by the
    /// limit of the state.
    fn scaling(&mut self) -> Result<()> {
        let options = self.options();
        for size in self.scale.sizes.clone() {
            for (first, perfect) in [(options.first, false), (options.first, true), (STAGED, false)] {
                let options = Options {
                    first,
                    perfect,
                    ..options
                };
                self.join((size, size), options, ("million tuples", size as f64))?;
            }
        }
        let size = self.scale.sizes[1.min(self.scale.sizes.len() - 1)];
        for factor in [0.25, 0.5, 1.0, 2.0, 4.0] {
            let limit = (self.scale.limit as f64 * factor) as u64;
            self.join(
                (size, size),
                Options { limit, ..options },
                ("limit of the state", factor),
            )?;
        }
        Ok(())
    }

    /// The join with its whole state in host memory, by the size of chunks and their number in flight.
    fn chunks(&mut self) -> Result<()> {
        let size = self.scale.sizes[1.min(self.scale.sizes.len() - 1)];
        for (slots, name) in [
            (2, "MiB of 2 chunks"),
            (3, "MiB of 3 chunks"),
            (5, "MiB of 5 chunks"),
        ] {
            for chunk_bits in self.scale.chunks.clone() {
                let options = Options {
                    limit: 0,
                    chunk_bits,
                    exact_chunks: true,
                    slots,
                    ..self.options()
                };
                let mib = (16 << chunk_bits) as f64 / (1 << 20) as f64;
                self.join((size, size), options, (name, mib))?;
            }
        }
        Ok(())
    }

    /// Figure 4.16: partitioned by the CPU or by the GPU.
    fn processors(&mut self) -> Result<()> {
        for workload in self.workloads() {
            for first in [
                self.options().first,
                STAGED,
                First::Direct(RadixAlgorithm::Hierarchical),
                First::Cpu,
            ] {
                let options = Options {
                    first,
                    ..self.options()
                };
                self.join(workload, options, ("million tuples", workload.0 as f64))?;
            }
        }
        Ok(())
    }

    /// Figure 4.17: the algorithm of the first pass, without a cache of the state.
    fn first_passes(&mut self) -> Result<()> {
        for workload in self.workloads() {
            let published = RadixAlgorithm::PUBLISHED.map(First::Direct);
            for first in published.into_iter().chain([STAGED, self.options().first]) {
                if first == First::Direct(RadixAlgorithm::Standard) && workload.0 > self.scale.sizes[0] {
                    // It takes several seconds per run.
                    continue;
                }
                let options = Options {
                    first,
                    limit: 0,
                    ..self.options()
                };
                self.join(workload, options, ("million tuples", workload.0 as f64))?;
            }
        }
        Ok(())
    }

    /// Figure 4.18: one pass from host memory to host memory, by fanout.
    fn across_the_link(&mut self) -> Result<()> {
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
                    seconds.push(join.partition(self.rig, &inputs)?);
                }
                let bytes = 16 * tuples as u64;
                let staged = matches!(first, First::Staged(_));
                (self.out)(Row {
                    experiment: "partitioning",
                    figure: self.figure,
                    algorithm: first.to_string(),
                    workload,
                    parameter: "fanout",
                    value: f64::from(1 << bits),
                    tuples: tuples as u64,
                    seconds,
                    bytes: Bytes {
                        to_device: bytes,
                        to_host: bytes,
                        memory: if staged { 9 * bytes / 2 } else { 0 },
                    },
                    spilled: 1.0,
                    bits: (bits, 0),
                    limits: self.rig.limits,
                });
            }
        }
        self.rig.keep(inputs);
        Ok(())
    }

    /// Figure 4.19: one pass in device memory, by fanout.
    fn in_memory(&mut self) -> Result<()> {
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
                    (self.out)(Row {
                        experiment,
                        figure: self.figure,
                        algorithm: algorithm.to_string(),
                        workload: (0, self.scale.partitioned),
                        parameter: "fanout",
                        value: f64::from(1 << bits),
                        tuples: tuples as u64,
                        seconds,
                        bytes: Bytes {
                            memory: memory as u64,
                            ..Bytes::default()
                        },
                        spilled: 0.0,
                        bits: (bits, 0),
                        limits: self.rig.limits,
                    });
                }
            }
        }
        drop(pass);
        self.rig.keep(inputs);
        Ok(())
    }

    /// Figure 4.20: fanouts of both passes, of which the tables fit shared memory.
    fn fanouts(&mut self) -> Result<()> {
        for workload in self.workloads() {
            let options = self.options();
            let tuples = (workload.0 * self.scale.million) as f64;
            let table = RadixTable::Chains(options.heads);
            let entries = self.rig.join.capacity(table).min(options.entries);
            let (firsts, seconds) = self.scale.join_fanouts.clone();
            for second in seconds {
                for first in firsts.iter().copied() {
                    let of_table = tuples / f64::from(1u32 << (first + second)) / f64::from(entries);
                    if !(1.0 / 64.0..0.95).contains(&of_table) {
                        continue;
                    }
                    let options = Options {
                        bits: Some((first, second)),
                        ..options
                    };
                    self.join(workload, options, ("fanout", f64::from(1 << first)))?;
                }
            }
        }
        Ok(())
    }

    /// Figure 4.21: the fraction of the state that fits device memory.
    fn cache(&mut self) -> Result<()> {
        for workload in self.workloads() {
            let state = state_bytes(workload, self.scale.million);
            for fraction in [0.0, 0.25, 0.5, 0.79, 1.0] {
                let options = Options {
                    limit: match fraction {
                        1.0 => u64::MAX,
                        _ => (state as f64 * fraction) as u64,
                    },
                    ..self.options()
                };
                self.join(workload, options, ("cached", fraction))?;
            }
        }
        Ok(())
    }

    /// Figure 4.23: the ratio of the sides, with the bytes of the middle workload.
    fn ratios(&mut self) -> Result<()> {
        let size = self.scale.sizes[1.min(self.scale.sizes.len() - 1)];
        for ratio in [1, 4, 16, 32] {
            let build = (2 * size / (1 + ratio)).max(1);
            let workload = (build, 2 * size - build);
            self.join(workload, self.options(), ("ratio", ratio as f64))?;
        }
        Ok(())
    }

    /// Figure 4.25: fewer multiprocessors.
    fn multiprocessors(&mut self) -> Result<()> {
        let all = self.rig.multiprocessors();
        for workload in self.workloads() {
            for first in [self.options().first, First::Direct(RadixAlgorithm::Hierarchical)] {
                if workload.0 != self.scale.sizes[0] && matches!(first, First::Direct(_)) {
                    continue;
                }
                for multiprocessors in [8, 16, 28, 55, 80, all] {
                    let multiprocessors = multiprocessors.min(all);
                    let options = Options {
                        first,
                        multiprocessors,
                        ..self.options()
                    };
                    self.join(workload, options, ("multiprocessors", multiprocessors.into()))?;
                }
            }
        }
        Ok(())
    }
}

/// A pass whose input and output are in device memory.
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
