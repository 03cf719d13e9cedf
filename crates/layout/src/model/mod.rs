//! The model: the cost of a grouped aggregation in each layout of its accumulators, and the choice.
//!
//! ```text
//!   seconds = ∛(memory³ + shared³ + issue³) + merge
//!   memory    rows × bytes per row / rate, less if the resident warps cannot have enough bytes in flight, or
//!             their shared memory leaves too little cache for them
//!   shared    accesses × rounds per access / rate, or latency / resident warps if that is more
//!   issue     accesses × instructions / rate
//!   merge     clearing and reading each block's copies, then an atomic per block, group and word in device
//!             memory; atomics within one KiB are serialised
//! ```
//!
//! The [`Analyser`] counts rounds per access, on accesses sampled from the column, or drawn from the
//! frequencies of its groups with a fixed seed, with the words of each layout. So skew, clustering, bank
//! conflicts and value conflicts (Sitaridi & Ross §1) need no formulas of their own, and [`predict`] is a
//! pure function.
//!
//! Rounds of the updates of an access, if the conflicts of its words cost a write *W* and a read *R* rounds:
//!
//! | layout | count | 32-bit sum | 64-bit sum | why |
//! | --- | --- | --- | --- | --- |
//! | one copy, replicated, slots | *R* | *W* | *W* (1 + *h*) | 64-bit sums are two native 32-bit atomics; the high one is needed for a fraction *h* of rows. Constant increments of one word are merged by the hardware |
//! | registers | 0 | 0 | 0 | no shared memory; the time to update registers is included in the instructions |
//! | per thread | 2 | 2 | 4 | a load and a store, never a conflict |
//! | warp-aggregated | *R* | *R* + *L* | *R* (1 + *h*) + 2 *L* | lanes of a group reduce in a tree, all
//! groups at once. *L* is the number of shuffles, the number of doublings of the largest group; plus the
//! matching, once |
//!
//! Accumulators of 64 bits are modelled as two planes of 32-bit halves, so that neighbouring groups are in
//! neighbouring banks. Known inaccuracies: warps that drift apart overlap conflicts with loads; conflicts
//! between warps (§3.3) are not charged; an atomic that returns the previous value, as the low halves do for
//! the carry, is assumed to cost no more than one that does not. Among layouts of the same cost, the simpler
//! one is first.

mod choice;
mod machine;

use std::borrow::Cow;

pub use choice::{AccumulatorLayout, Choice, Cost, Prediction, Unavailable};
pub use machine::Machine;

use crate::analyse::{Analyser, Conflicts};
use crate::banks::WIDEST;
use crate::frequency::Frequencies;
use crate::pattern::Tiles;
use crate::slots::LayoutReport;

/// Number of drawn rows on which rounds are counted: the mean of 256 accesses.
const DRAWN_ROWS: usize = 256 * WIDEST as usize;
const SEED: u64 = 0;
/// Share of merging that overlaps with the rows of blocks that end later. Measured on an H200 for 256 to 4096
/// groups.
const HIDDEN: f64 = 0.4;

/// The accumulators of one group.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Accumulators {
    /// Counts of rows, 32 bits: every update adds the same value.
    pub counts: u32,
    /// Sums, minima and maxima of 32 bits.
    pub sums: u32,
    /// Sums of 64 bits.
    pub wide_sums: u32,
    /// Fraction of rows that touch the high half of a 64-bit sum: 1 unless the values are small and not
    /// negative.
    pub high_halves: f64,
}

impl Accumulators {
    /// Bytes of a group.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        4 * u64::from(self.counts) + 4 * u64::from(self.sums) + 8 * u64::from(self.wide_sums)
    }

    /// Number of accumulators, of any width.
    fn number(&self) -> u64 {
        u64::from(self.counts) + u64::from(self.sums) + u64::from(self.wide_sums)
    }

    /// Rounds of an access that updates all accumulators, given the rounds of a count, a 32-bit sum and a
    /// 64-bit sum.
    fn rounds(&self, count: f64, sum: f64, wide_sum: f64) -> f64 {
        f64::from(self.counts) * count + f64::from(self.sums) * sum + f64::from(self.wide_sums) * wide_sum
    }
}

/// Statistics of the groups of a column, numbered densely from 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Groups<'a> {
    /// The frequency of each group. Rows are assumed to be independent of their neighbours.
    Frequencies(&'a Frequencies),
    /// Runs of 32 consecutive rows of the column. Only a sample shows that a column is clustered by its
    /// groups.
    Sample {
        /// The rows; numbers below `groups`. A few hundred runs are enough; all of them are used.
        rows: &'a [u32],
        /// Number of groups.
        groups: usize,
    },
}

impl<'a> Groups<'a> {
    /// Number of groups.
    #[must_use]
    pub fn number(&self) -> u64 {
        match *self {
            Self::Frequencies(frequencies) => frequencies.values() as u64,
            Self::Sample { groups, .. } => groups as u64,
        }
    }

    fn rows(&self) -> Cow<'a, [u32]> {
        match *self {
            Self::Frequencies(frequencies) => frequencies.column(DRAWN_ROWS, SEED).into(),
            Self::Sample { rows, .. } => rows.into(),
        }
    }
}

/// A grouped aggregation over dense groups.
#[derive(Debug, Clone, Copy)]
pub struct GroupedAggregation<'a> {
    /// Rows aggregated.
    pub rows: u64,
    /// Bytes read per row, of all columns, including the group's column without copies.
    pub row_bytes: f64,
    /// The groups.
    pub groups: Groups<'a>,
    /// Accumulators of a group.
    pub accumulators: Accumulators,
    /// The group's column, if it has a layout for writes.
    pub laid_out: Option<LaidOutColumn>,
    /// Instructions that a warp executes for the rows of an access: decoding, filters, updates. An estimate;
    /// 0 if only memory is to be considered.
    pub instructions: f64,
}

/// The effects of a layout on an aggregation by its column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LaidOutColumn {
    /// Number of slots of the table, including holes.
    pub slots: u64,
    /// Mean rounds of an access that writes.
    pub rounds: f64,
    /// Additional bytes of a row compared with no copies.
    pub extra_row_bytes: f64,
}

impl From<&LayoutReport> for LaidOutColumn {
    fn from(report: &LayoutReport) -> Self {
        let (before, after) = report.row_bytes();
        Self {
            slots: report.slots as u64,
            rounds: report.mean_rounds(),
            extra_row_bytes: f64::from(after - before),
        }
    }
}

/// Launch parameters of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Threads of a block.
    pub threads: u32,
    /// Number of rows that a thread loads at once.
    pub rows_per_thread: u32,
    /// Shared memory that the accumulators of a block may take, in bytes.
    pub shared_bytes: u64,
}

/// Conflicts of the lanes of a warp that add to replicated accumulators: a group's copies begin `stride`
/// words after those of the previous group, and lane *l* adds to copy *l* mod `copies`.
#[must_use]
pub fn replicated_conflicts(groups: &[u32], copies: u32, stride: u32) -> Conflicts {
    let word = |group, lane: usize| group * stride + lane as u32 % copies;
    Analyser::default().groups(groups, &Tiles::paper(), word)
}

/// Predicts every layout. Of the replicated layouts, only the cheapest number of copies that fits is listed.
#[must_use]
pub fn predict(aggregation: &GroupedAggregation<'_>, launch: &Launch, machine: &Machine) -> Choice {
    let model = Model::new(aggregation, launch, machine);
    Choice::among(vec![
        model.predict(AccumulatorLayout::OneCopy),
        model.replicated(),
        model.predict(AccumulatorLayout::PerThread),
        model.predict(AccumulatorLayout::WarpAggregated),
        model.predict(AccumulatorLayout::Slots),
    ])
}

/// Predicts one layout.
#[must_use]
pub fn predict_layout(
    aggregation: &GroupedAggregation<'_>,
    launch: &Launch,
    machine: &Machine,
    layout: AccumulatorLayout,
) -> Prediction {
    Model::new(aggregation, launch, machine).predict(layout)
}

struct Model<'a> {
    aggregation: &'a GroupedAggregation<'a>,
    launch: &'a Launch,
    machine: &'a Machine,
    limit: u64,
    /// The groups of some rows.
    rows: Cow<'a, [u32]>,
}

impl<'a> Model<'a> {
    /// Samples or draws rows if rounds have to be counted for some layout.
    fn new(aggregation: &'a GroupedAggregation<'a>, launch: &'a Launch, machine: &'a Machine) -> Self {
        let limit = launch.shared_bytes.min(machine.shared_bytes_per_block);
        let fits = aggregation.groups.number() * aggregation.accumulators.bytes() <= limit;
        Self {
            aggregation,
            launch,
            machine,
            limit,
            rows: if fits {
                aggregation.groups.rows()
            } else {
                Cow::Borrowed(&[])
            },
        }
    }

    fn groups(&self) -> u64 {
        self.aggregation.groups.number()
    }

    /// The cheapest number of copies. If none fits, the bytes of the smallest.
    fn replicated(&self) -> Prediction {
        let layout = |copies, stride| AccumulatorLayout::Replicated { copies, stride };
        [2, 4, 8, 16, 32]
            .into_iter()
            .flat_map(|copies| [layout(copies, copies), layout(copies, copies + 1)])
            .map(|layout| self.predict(layout))
            .min_by(|one, other| one.seconds().total_cmp(&other.seconds()))
            .unwrap_or_else(|| self.predict(layout(2, 2)))
    }

    /// Words of 32 bits that one accumulator takes in a block.
    fn words(&self, layout: AccumulatorLayout) -> Result<u64, Unavailable> {
        Ok(match layout {
            AccumulatorLayout::Registers => 0,
            AccumulatorLayout::OneCopy | AccumulatorLayout::WarpAggregated => self.groups(),
            AccumulatorLayout::Replicated { stride, .. } => self.groups() * u64::from(stride),
            AccumulatorLayout::PerThread => self.groups() * u64::from(self.launch.threads),
            AccumulatorLayout::Slots => self.laid_out()?.slots,
        })
    }

    fn laid_out(&self) -> Result<LaidOutColumn, Unavailable> {
        self.aggregation.laid_out.ok_or(Unavailable::NoLayout)
    }

    /// Conflicts of the rows, with the words of a layout.
    fn conflicts(&self, word: impl Fn(u32, usize) -> u32 + Sync) -> Conflicts {
        Analyser::default().groups(&self.rows, &Tiles::paper(), word)
    }

    /// Mean over accesses of the base-2 logarithm, rounded up, of the largest group of lanes.
    fn doublings(&self) -> f64 {
        let mut doublings = 0;
        for access in self.rows.chunks(WIDEST as usize) {
            let equals = |group| access.iter().filter(|other| *other == group).count() as u32;
            let most = access.iter().map(equals).max().unwrap_or(1);
            doublings += most.next_power_of_two().ilog2();
        }
        f64::from(doublings * WIDEST) / self.rows.len().max(1) as f64
    }

    /// Rounds for the rows of an access, for all accumulators together.
    fn rounds(&self, layout: AccumulatorLayout) -> Result<f64, Unavailable> {
        let accumulators = &self.aggregation.accumulators;
        let halves = 1.0 + accumulators.high_halves;
        let atomics = |read: f64, write: f64| accumulators.rounds(read, write, write * halves);
        Ok(match layout {
            AccumulatorLayout::Registers => 0.0,
            AccumulatorLayout::OneCopy => {
                let found = self.conflicts(|group, _| group);
                atomics(found.mean_read_rounds(), found.mean_write_rounds())
            }
            AccumulatorLayout::Replicated { copies, stride } => {
                let found = replicated_conflicts(&self.rows, copies, stride);
                atomics(found.mean_read_rounds(), found.mean_write_rounds())
            }
            AccumulatorLayout::PerThread => accumulators.rounds(2.0, 2.0, 4.0),
            AccumulatorLayout::WarpAggregated => {
                let read = self.conflicts(|group, _| group).mean_read_rounds();
                let shuffles = self.doublings();
                let sums = accumulators.rounds(read, read + shuffles, read * halves + 2.0 * shuffles);
                self.machine.match_rounds + sums
            }
            AccumulatorLayout::Slots => {
                let rounds = self.laid_out()?.rounds;
                atomics(rounds, rounds)
            }
        })
    }

    fn predict(&self, layout: AccumulatorLayout) -> Prediction {
        Prediction {
            layout,
            cost: self.cost(layout),
        }
    }

    fn cost(&self, layout: AccumulatorLayout) -> Result<Cost, Unavailable> {
        let Self {
            aggregation,
            launch,
            machine,
            ..
        } = self;
        let accumulators = &aggregation.accumulators;
        let shared_bytes = self.words(layout)? * accumulators.bytes();
        let blocks = machine.resident_blocks(launch.threads, shared_bytes);
        if shared_bytes > self.limit || blocks == 0 {
            return Err(Unavailable::SharedMemory {
                needed: shared_bytes,
                limit: self.limit,
            });
        }
        let rounds = self.rounds(layout)?;
        let warps = blocks * launch.threads / WIDEST;
        let multiprocessors = f64::from(machine.multiprocessors);

        let extra = match layout {
            AccumulatorLayout::Slots => self.laid_out()?.extra_row_bytes,
            _ => 0.0,
        };
        let row_bytes = aggregation.row_bytes + extra;
        let asked = f64::from(warps * WIDEST * launch.rows_per_thread) * row_bytes;
        let memory_rate = machine.read_rate(asked, blocks, shared_bytes);
        let memory_seconds = if row_bytes > 0.0 {
            aggregation.rows as f64 * row_bytes / memory_rate
        } else {
            0.0
        };

        let accesses = aggregation.rows as f64 / f64::from(WIDEST);
        let waits = match layout {
            AccumulatorLayout::Registers => 0.0,
            _ => machine.update_latency / f64::from(warps),
        };
        let shared_seconds = accesses * rounds.max(waits) / machine.rounds_per_second;

        let issue_seconds = accesses * aggregation.instructions / machine.instructions_per_second();

        // Every resident block clears its words, reads them back, and adds each group's words to the result.
        let resident = f64::from(blocks) * multiprocessors;
        let words = shared_bytes as f64 / 4.0 / f64::from(WIDEST);
        let own = resident * 2.0 * words / machine.rounds_per_second;
        let accumulator_words = (self.groups() * accumulators.number()) as f64;
        let kibs = (accumulator_words * 8.0 / 1024.0).ceil().max(1.0);
        let rate = machine
            .global_atomics_per_second
            .min(kibs * machine.global_atomics_in_a_kib());
        let merge_seconds = match layout {
            // Merged warp by warp, in registers.
            AccumulatorLayout::Registers => 0.0,
            _ => own + (1.0 - HIDDEN) * resident * accumulator_words / rate,
        };

        Ok(Cost {
            seconds: overlapped([memory_seconds, shared_seconds, issue_seconds]) + merge_seconds,
            memory_seconds,
            shared_seconds,
            issue_seconds,
            merge_seconds,
            rounds,
            shared_bytes,
            warps,
        })
    }
}

/// Time of kinds of work that overlap imperfectly: if two take the same time, they take a quarter more than
/// one of them. Measured on an H200, for sums of 100 million rows by 8 to 1024 groups.
#[must_use]
pub fn overlapped(seconds: [f64; 3]) -> f64 {
    seconds.iter().map(|each| each.powi(3)).sum::<f64>().cbrt()
}
