//! The Triton join (Lutz 2022, 4.4): a radix join in two passes, whose input is in host memory, and whose
//! state between the passes may exceed a part of the device's memory.
//!
//! ```text
//!   columns (host) ── first pass ── pages of rows (device, host) ── gathered ── second pass ── joined in
//!                                                                   partition i+1    partition i   shared memory
//! ```
//!
//! | first pass | what it does |
//! | --- | --- |
//! | `Staged` | Copy engines bring chunks of columns, kernels partition them in device memory, and copy engines write whole chunks that do not fit into the state's limit to the host. A page of the state is a chunk. |
//! | `Refined` | As `Staged`, but a chunk is partitioned by the bits of both passes while it is in device memory. |
//! | `Direct` | As in the thesis: kernels read the columns over the link, twice, and write each row to its page in device or host memory. |
//! | `Cpu` | Threads of the CPU partition to host memory. |
//!
//! After `Refined`, one kernel joins all partitions, and reads their slices where they are. The second half
//! of the others is the thesis'. A kernel with a few blocks copies the slices of a partition from both
//! memories to one array, while another stream partitions and joins the one before. A partition with more
//! rows than a limit is joined in batches, and one of the second pass that exceeds shared memory in several
//! tables.

use std::time::Instant;

use galatea_device::{DeviceBuffer, Event, Result};
use galatea_kernels::{
    RADIX_TUPLE_BYTES, RadixAlgorithm, RadixBits, RadixIndex, RadixPages, RadixRows, RadixTuples, RadixValues,
};

use super::clock::Phase;
use super::data::{Inputs, Relation};
use super::host::HostRows;
use super::options::{First, Options};
use super::rig::{Bytes, Pass, Rig};
use super::second::{Pieces, SecondHalf};
use super::state::State;
use super::traffic::Traffic;

/// Tuples of both columns of a chunk, in words.
const WORDS: usize = RADIX_TUPLE_BYTES / 8;

/// A run of a join.
#[derive(Debug, Clone, Copy)]
pub struct Joined {
    /// Seconds of the first pass over both sides.
    pub first: f64,
    /// Seconds of the second half.
    pub second: f64,
    /// The sum of the values of both sides of all matches, and their number.
    pub sums: [u64; 2],
}

/// One of the two relations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Build,
    Probe,
}

/// A join with its memory, for several runs.
#[derive(Debug)]
pub struct Join {
    pub(super) options: Options,
    pub(super) bits: (RadixBits, RadixBits),
    /// Number of pages of each side; none if the CPU partitions.
    pages: [usize; 2],
    pub(super) state: Option<State>,
    pub(super) host: Option<[HostRows; 2]>,
    pub(super) first: Pass,
    /// Positions of partitions, of each page or of each side.
    pub(super) starts: DeviceBuffer<u32>,
    /// Chunks of columns and of rows.
    slots: Vec<[DeviceBuffer<u64>; 2]>,
    /// Rows of a chunk between its two passes, and the positions of their partitions.
    refined: Option<(DeviceBuffer<u64>, DeviceBuffer<u32>)>,
    second: SecondHalf,
    /// Record numbers of the probe side of all matches, and their number.
    index: Option<(DeviceBuffer<u64>, DeviceBuffer<u32>)>,
    pub(super) sums: DeviceBuffer<u64>,
}

impl Join {
    /// Allocates memory for joins of relations of these sizes.
    ///
    /// # Errors
    /// Too little memory; the device's.
    pub fn new(rig: &mut Rig, inputs: &Inputs, options: Options) -> Result<Self> {
        let counts = [inputs.build.count, inputs.probe.count];
        let (first_bits, second_bits) = options.bits_for(rig, counts[0] as u64);
        let raw = options.perfect;
        let first_bits = RadixBits {
            shift: 0,
            bits: first_bits,
            raw,
        };
        let second_bits = RadixBits {
            shift: first_bits.bits,
            bits: second_bits,
            raw,
        };
        let mut options = options;
        if matches!(options.first, First::Refined(_)) && !options.exact_chunks {
            let wanted = first_bits.bits + second_bits.bits + 7;
            options.chunk_bits = wanted.clamp(options.chunk_bits.saturating_sub(1), options.chunk_bits + 2);
        }
        let most = options.multiprocessors.min(rig.multiprocessors()).max(1);
        let (algorithm, page_bits) = match options.first {
            First::Staged(algorithm) | First::Refined(algorithm) => (algorithm, options.chunk_bits),
            First::Direct(algorithm) => (algorithm, options.page_bits),
            First::Cpu => (RadixAlgorithm::Standard, options.page_bits),
        };
        let mut pages = counts.map(|count| count.div_ceil(1 << page_bits).max(1));
        let (mut state, mut host) = (None, None);
        if options.first == First::Cpu {
            pages = [0, 0];
            rig.drop_shared();
            host = Some([
                HostRows::new(&rig.device, counts[0], options.task_bits)?,
                HostRows::new(&rig.device, counts[1], options.task_bits)?,
            ]);
        } else {
            state = Some(State::new(rig, pages[0] + pages[1], page_bits, options.limit)?);
        }
        let first = Pass::new(rig, algorithm, first_bits, most)?;
        let all_bits = first_bits.bits + second_bits.bits;
        let words = match options.first {
            First::Refined(_) => (pages[0] + pages[1]) * ((1 << all_bits) + 1),
            First::Staged(_) => (pages[0] + pages[1]) * (first_bits.parts() + 1),
            _ => 2 * (first_bits.parts() + 1),
        };
        let starts = rig.device.zeroed(&rig.kernels, words)?;
        let mut refined = None;
        if matches!(options.first, First::Refined(_)) {
            let rows = rig
                .device
                .alloc::<u64>(&rig.kernels, WORDS << options.chunk_bits)?;
            let starts = rig.device.zeroed::<u32>(&rig.kernels, first_bits.parts() + 1)?;
            refined = Some((rows.assume_written(), starts));
        }
        let mut slots = Vec::new();
        if options.first.has_chunks() {
            for _ in 0..options.slots.max(1) {
                let buffer = || {
                    let words = WORDS << options.chunk_bits;
                    Ok::<_, galatea_device::DeviceError>(
                        rig.device.alloc(&rig.kernels, words)?.assume_written(),
                    )
                };
                slots.push([buffer()?, buffer()?]);
            }
        }
        let mut index = None;
        if options.index {
            let values = rig.device.alloc::<u64>(&rig.kernels, counts[1].max(1))?;
            index = Some((values.assume_written(), rig.device.zeroed(&rig.kernels, 1)?));
        }
        let sums = rig.device.zeroed(&rig.kernels, 2)?;
        rig.synchronize()?;
        Ok(Self {
            options,
            bits: (first_bits, second_bits),
            pages,
            state,
            host,
            first,
            starts,
            slots,
            refined,
            second: SecondHalf::new(options, second_bits),
            index,
            sums,
        })
    }

    /// Bits of both passes.
    #[must_use]
    pub fn bits(&self) -> (u32, u32) {
        (self.bits.0.bits, self.bits.1.bits)
    }

    /// Fraction of the state in host memory.
    #[must_use]
    pub fn spilled(&self) -> f64 {
        self.state.as_ref().map_or(1.0, State::spilled)
    }

    /// The bytes that each phase of a join of `tuples` tuples moves at least.
    pub(super) fn traffic(&self, tuples: u64) -> Traffic {
        Traffic {
            first: self.options.first,
            tuples,
            spilled: (self.spilled() * (16 * tuples) as f64) as u64,
            keys_only: self.options.index,
            cpu_prefix_sum: self.options.cpu_prefix_sum,
        }
    }

    /// The bytes that the first pass and the second half of a join of `tuples` tuples move at least.
    #[must_use]
    pub fn bytes(&self, tuples: u64) -> [Bytes; 2] {
        self.traffic(tuples).halves()
    }

    pub(super) fn page_bits(&self) -> u32 {
        match self.options.first {
            first if first.has_chunks() => self.options.chunk_bits,
            _ => self.options.page_bits,
        }
    }

    /// The first page of a side.
    pub(super) fn first_page(&self, side: Side) -> usize {
        match side {
            Side::Build => 0,
            Side::Probe => self.pages[0],
        }
    }

    /// Device address of a list of positions.
    pub(super) fn starts_of(&self, list: usize) -> u64 {
        let bits = match self.options.first {
            First::Refined(_) => self.bits.0.bits + self.bits.1.bits,
            _ => self.bits.0.bits,
        };
        self.starts.address() + (4 * list * ((1 << bits) + 1)) as u64
    }

    /// Queues the staged first pass of one side.
    pub(super) fn stage(&mut self, rig: &Rig, relation: &Relation, side: Side) -> Result<()> {
        let chunk = 1 << self.options.chunk_bits;
        let first_page = self.first_page(side);
        let slots = self.slots.len();
        let empty = || std::iter::repeat_with(|| None).take(slots).collect();
        let (mut scattered, mut spilled): (Vec<Option<Event>>, Vec<Option<Event>>) = (empty(), empty());
        for (number, start) in (0..relation.count).step_by(chunk).enumerate() {
            let (slot, page) = (number % slots, first_page + number);
            let count = chunk.min(relation.count - start);
            if let Some(event) = &scattered[slot] {
                rig.copies.wait(event)?;
            }
            let views = relation.views(start..start + count)?;
            let columns_read = if self.options.index { 1 } else { 2 };
            let [columns, _] = &mut self.slots[slot];
            for (column, view) in views.iter().take(columns_read).enumerate() {
                let at = column * chunk;
                rig.copies
                    .copy_to_device(columns.slice_mut(at..at + count)?, view)?;
            }
            rig.mark(Phase::CopyIn)?;
            rig.kernels.wait(&rig.copies.record()?)?;
            let [columns, rows] = &self.slots[slot];
            let tuples = RadixTuples {
                keys: columns.address(),
                values: match self.options.index {
                    true => RadixValues::Numbers(start as u64),
                    false => RadixValues::Column(columns.address() + 8 * chunk as u64),
                },
                count: count as u64,
            };
            let Some(state) = &self.state else { continue };
            let host = state.host(page);
            let target = match host {
                None => state.address(page),
                Some(_) => rows.address(),
            };
            if let Some(event) = spilled[slot].as_ref().filter(|_| host.is_some()) {
                rig.kernels.wait(event)?;
            }
            let list = self.starts_of(page);
            match &self.refined {
                None => self.first.run(rig, tuples, RadixRows::Array(target), list)?,
                Some((rows, starts)) => {
                    let (rows, starts) = (rows.address(), starts.address());
                    self.first.run(rig, tuples, RadixRows::Array(rows), starts)?;
                    let from = (rows, starts, self.bits.0.parts());
                    let (stream, bits) = (&rig.kernels, self.bits.1);
                    let most = self.options.multiprocessors.min(rig.multiprocessors());
                    rig.refine.launch(stream, from, bits, (target, list), most)?;
                    rig.mark(Phase::SecondPass)?;
                }
            }
            let done = rig.kernels.record()?;
            if let Some((memory, offset)) = host {
                rig.spills.wait(&done)?;
                rig.spills
                    .copy_to_shared(rows.slice(..WORDS * count)?, memory, offset)?;
                rig.mark(Phase::CopyOut)?;
                spilled[slot] = Some(rig.spills.record()?);
            }
            scattered[slot] = Some(done);
        }
        // The next side uses the same slots.
        for event in scattered.iter().flatten() {
            rig.copies.wait(event)?;
        }
        for event in spilled.iter().flatten() {
            rig.kernels.wait(event)?;
        }
        Ok(())
    }

    /// The first pass over one side. Returns the pieces of each partition: addresses and numbers of rows.
    pub(super) fn first_pass(&mut self, rig: &Rig, relation: &Relation, side: Side) -> Result<Vec<Pieces>> {
        let parts = self.bits.0.parts();
        let index = side as usize;
        if let Some(host) = &mut self.host {
            let rows = &mut host[index];
            let lists = rows.partition(relation, 0..relation.count, self.bits.0)?;
            let piece = |task: usize, starts: &[u32], part: usize| {
                let row = task * rows.task() + starts[part] as usize;
                (rows.address() + 16 * row as u64, starts[part + 1] - starts[part])
            };
            let pieces = |part| {
                let lists = lists.iter().enumerate();
                lists.map(|(task, starts)| piece(task, starts, part)).collect()
            };
            return Ok((0..parts).map(pieces).collect());
        }
        if self.options.first.has_chunks() {
            self.stage(rig, relation, side)?;
        } else if let Some(state) = &self.state {
            let tuples = relation.tuples();
            let list = self.starts_of(index);
            let rows = state.rows_from(self.first_page(side));
            let grid = match self.options.cpu_prefix_sum {
                true => self.first.count_on_cpu(rig, relation.columns().0, list)?,
                false => self.first.count(rig, tuples, list)?,
            };
            self.first.scatter(rig, tuples, grid, rows)?;
        }
        Ok(Vec::new())
    }

    /// The pieces of each partition of a side, after the first pass of kernels.
    fn pieces(&self, starts: &[u32], side: Side) -> Vec<Pieces> {
        let parts = self.bits.0.parts();
        let list = |number: usize| &starts[number * (parts + 1)..(number + 1) * (parts + 1)];
        let first = self.first_page(side);
        let Some(state) = &self.state else {
            return Vec::new();
        };
        let pieces = |part: usize| match self.options.first {
            First::Staged(_) => {
                let pages = first..first + self.pages[side as usize];
                let of_page = |page| state.pieces(page, list(page)[part]..list(page)[part + 1]);
                pages.flat_map(of_page).collect()
            }
            _ => {
                let starts = list(side as usize);
                state.pieces(first, starts[part]..starts[part + 1])
            }
        };
        (0..parts).map(pieces).collect()
    }

    /// Runs the join.
    ///
    /// # Errors
    /// The device's.
    pub fn run(&mut self, rig: &Rig, inputs: &Inputs) -> Result<Joined> {
        // State of an earlier run must not make a right answer.
        rig.kernels.fill(&mut self.sums, 0)?;
        rig.kernels.fill(&mut self.starts, 0)?;
        if let Some((values, used)) = &mut self.index {
            rig.kernels.fill(values, 0xff)?;
            rig.kernels.fill(used, 0)?;
        }
        rig.synchronize()?;
        rig.begin()?;
        let begun = Instant::now();
        let mut build = self.first_pass(rig, &inputs.build, Side::Build)?;
        let mut probe = self.first_pass(rig, &inputs.probe, Side::Probe)?;
        rig.synchronize()?;
        if matches!(self.options.first, First::Refined(_)) {
            let first = begun.elapsed().as_secs_f64();
            let begun = Instant::now();
            self.join_slices(rig, inputs.build.count as u64)?;
            let sums = rig.kernels.read(&self.sums, ..)?;
            return Ok(Joined {
                first,
                second: begun.elapsed().as_secs_f64(),
                sums: [sums[0], sums[1]],
            });
        }
        if self.host.is_none() {
            let starts = rig.kernels.read(&self.starts, ..)?;
            build = self.pieces(&starts, Side::Build);
            probe = self.pieces(&starts, Side::Probe);
        }
        let first = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        let (sums, domain) = (self.sums.address(), inputs.build.count as u64);
        self.second.run(rig, (&build, &probe), domain, sums)?;
        let sums = rig.kernels.read(&self.sums, ..)?;
        rig.synchronize()?;
        Ok(Joined {
            first,
            second: begun.elapsed().as_secs_f64(),
            sums: [sums[0], sums[1]],
        })
    }

    /// Joins all partitions from the slices of all pages.
    fn join_slices(&self, rig: &Rig, domain: u64) -> Result<()> {
        let Some(state) = &self.state else {
            return Ok(());
        };
        let most = self.options.multiprocessors.min(rig.multiprocessors()).max(1);
        let pages = |side: Side| RadixPages {
            addresses: state.table(self.first_page(side)),
            starts: self.starts_of(self.first_page(side)),
            count: self.pages[side as usize] as u32,
        };
        let next = rig.device.zeroed::<u32>(&rig.kernels, 1)?;
        let bits = self.bits.0.bits + self.bits.1.bits;
        let table = self.options.table(domain);
        let tables = (bits, self.options.perfect, table, self.options.entries);
        let index = self.index.as_ref().map(|(values, used)| RadixIndex {
            values: values.address(),
            used: used.address(),
        });
        let work = (next.address(), self.sums.address(), index);
        let sides = (pages(Side::Build), pages(Side::Probe));
        rig.slices.launch(&rig.kernels, sides, tables, work, most)?;
        rig.mark(Phase::Join)
    }

    /// The record numbers of the join index of the last run; all bits of those without a match are set.
    ///
    /// # Errors
    /// The device's.
    pub fn read_index(&self, rig: &Rig) -> Result<Vec<u64>> {
        match &self.index {
            Some((values, _)) => rig.kernels.read(values, ..),
            None => Ok(Vec::new()),
        }
    }

    /// The join index of the last run: its device address, and the number of its elements, those without a
    /// match included.
    pub(super) fn index(&self) -> Option<(u64, u64)> {
        let (values, _) = self.index.as_ref()?;
        Some((values.address(), values.len() as u64))
    }
}
