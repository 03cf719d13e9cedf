//! Slots: assigns copies of values to rows, so that the lanes of a warp have no bank conflicts.
//!
//! A table in shared memory, of running aggregates or of a build side's payload, is an array indexed by the
//! values of a column, which are dense codes. If values are skewed or happen to share banks, the lanes of
//! an access touch few banks, and the access takes many rounds. If there is room for copies, the column can
//! be rewritten, once, when it is loaded: each row contains the copy, the *slot*, that it uses (Sitaridi &
//! Ross §3).
//!
//! ```text
//!   values  3 35 3 ...    ── one access at a time ──►   slots  3 3207 36 ...   + slot map: 3207 → 35, 36 → 3
//!
//!   1  each row takes a copy of its value in an empty bank                                              §3.1
//!   2  for each row left: the shortest sequence of relocations to an empty bank, breadth first          §3.1
//!   3  if none exists: a new copy, in the empty or emptiable bank with the fewest copies                §3.1
//!   4  if the budget permits none: relocations that ignore other warps                                  §3.3
//!   5  remaining rows, a conflict in any case: the same steps in another round
//! ```
//!
//! Copies are created where rows find no bank, so frequent values get more copies, and frequencies need not
//! be given. For reads, rows of an access with the same value share a copy (§3.2). With a *window*, copies
//! that the previous accesses used are not used again, because atomics of other warps may still be in flight
//! (§3.3); a value may then have several copies in one bank.
//!
//! Choices that the paper leaves open: windows end with the block. The table without copies is not padded,
//! and the slots up to the next multiple of 32 are the first copies. A budget limits the highest slot, so
//! holes count. Differences from the paper: there, a new copy is put into an empty bank. Here, it may also be
//! put into a bank if relocations can move the bank's row to an empty bank: the choice among more banks
//! leaves far fewer holes (of 1024 values by Zipf's law with θ = 1, 7 % instead of 41 %). There, rows beyond
//! the budget take any bank. Here, they are matched to banks again, which saves rounds (2.18 instead of 2.29,
//! uniform, two copies).
//!
//! **Threads** share only the copies: blocks are distributed over threads, and conflicts between blocks do
//! not exist. With one thread the result depends only on the input. With more threads, the set of copies
//! depends on timing, but every row decodes to its value and the budget holds in any case.
//!
//! **Limits.** The rows must not move: a selection that moves rows before the aggregation undoes the layout;
//! a selection inside the kernel only leaves lanes idle. A layout is optimised for the access pattern for
//! which it was computed.

mod budget;
mod copies;
mod matching;
mod worker;

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rayon::prelude::*;

pub use budget::Budget;
use copies::{CopyLog, TableShape};
use worker::Worker;

use crate::banks::Banks;
use crate::error::{LayoutError, Result};
use crate::pattern::AccessPattern;
use crate::slot_map::SlotMap;

/// The conflicts to avoid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// §3.2: lanes that access different copies in one bank. For tables that are only read.
    Reads,
    /// §3.1: lanes that access one bank. For tables that are written; also suitable for reads (§4).
    Writes {
        /// §3.3: number of preceding accesses of the block with copies that are not used again.
        window: usize,
    },
    /// The variant of Figure 7: lanes that access one copy, in any bank.
    WritesByValue {
        /// As for writes.
        window: usize,
    },
}

impl Goal {
    fn window(self) -> usize {
        match self {
            Self::Reads => 0,
            Self::Writes { window } | Self::WritesByValue { window } => window,
        }
    }
}

/// Options of the layout of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayoutOptions {
    /// The conflicts to avoid.
    pub goal: Goal,
    /// Limits of the table.
    pub budget: Budget,
    /// The banks.
    pub banks: Banks,
    /// Number of threads. The result of one thread is deterministic.
    pub threads: NonZeroUsize,
}

impl LayoutOptions {
    /// Options for 32 banks and all cores.
    #[must_use]
    pub fn new(goal: Goal, budget: Budget) -> Self {
        Self {
            goal,
            budget,
            banks: Banks::default(),
            threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        }
    }

    /// The same options with that number of threads.
    #[must_use]
    pub fn threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = threads;
        self
    }
}

/// A laid-out column.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The rewritten column: the slot of each row.
    pub slots: Vec<u32>,
    /// The map from slots to values.
    pub map: SlotMap,
    /// Costs and results of the layout.
    pub report: LayoutReport,
}

/// Counts of the steps of a layout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Steps {
    /// Number of accesses with a slot for each of their rows.
    pub accesses: u64,
    /// Number of rows with a slot.
    pub rows: u64,
    /// Number of rows moved to another copy to free a bank.
    pub relocated: u64,
    /// Number of copies created.
    pub created: u64,
    /// Number of rows that got no bank in the first round of their access because the budget was spent. For
    /// reads, rows of an access with the same value count once.
    pub conflicting: u64,
    /// Number of copies used again within the window, for the same reason.
    pub between_warps: u64,
    /// Serialisation rounds that the accesses will take.
    pub rounds: u64,
}

impl std::ops::AddAssign for Steps {
    fn add_assign(&mut self, other: Self) {
        self.accesses += other.accesses;
        self.rows += other.rows;
        self.relocated += other.relocated;
        self.created += other.created;
        self.conflicting += other.conflicting;
        self.between_warps += other.between_warps;
        self.rounds += other.rounds;
    }
}

/// Costs of a layout in space and time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayoutReport {
    /// Counts of the layout's steps.
    pub steps: Steps,
    /// Number of values.
    pub values: usize,
    /// Number of slots of the table, including holes.
    pub slots: usize,
    /// Number of holes.
    pub holes: usize,
    /// The most slots that the budget permitted.
    pub slots_permitted: usize,
    /// Number of values with more than one copy.
    pub replicated: usize,
    /// The most copies of one value.
    pub most_copies: u32,
    /// Number of threads used.
    pub threads: usize,
    /// Duration, including writing the column.
    pub elapsed: Duration,
}

impl LayoutReport {
    /// Mean number of copies of a value.
    #[must_use]
    pub fn mean_copies(&self) -> f64 {
        (self.slots - self.holes) as f64 / self.values.max(1) as f64
    }

    /// Mean number of copies of a value if holes count as copies, as they do in a budget.
    #[must_use]
    pub fn mean_copies_and_holes(&self) -> f64 {
        self.slots as f64 / self.values.max(1) as f64
    }

    /// Mean serialisation rounds of an access, of writes or of reads, according to the goal.
    #[must_use]
    pub fn mean_rounds(&self) -> f64 {
        self.steps.rounds as f64 / self.steps.accesses.max(1) as f64
    }

    /// Bytes of the table without copies, and with them.
    #[must_use]
    pub fn table_bytes(&self, slot_bytes: u32) -> (u64, u64) {
        let bytes = |slots: usize| slots as u64 * u64::from(slot_bytes);
        (bytes(self.values), bytes(self.slots))
    }

    /// Bytes of a row of the column, in the smallest width that a kernel loads (1, 2 or 4), before and after.
    /// Slots need more bits than values. If that increases the width, every scan reads more.
    #[must_use]
    pub fn row_bytes(&self) -> (u32, u32) {
        let bytes = |numbers: usize| match numbers {
            0..=0x100 => 1,
            0x101..=0x1_0000 => 2,
            _ => 4,
        };
        (bytes(self.values), bytes(self.slots))
    }
}

/// Lays out a column of `values` values, dense codes from 0, for accesses in `pattern`. Besides the column, a
/// thread holds 140 bytes per value and 12 bytes per slot.
///
/// ```
/// use galatea_layout::{Analyser, Budget, Goal, LayoutOptions, Tiles, lay_out};
///
/// let column: Vec<u32> = (0..4096).map(|row| row % 7 * 32).collect(); // all in bank 0
/// let pattern = Tiles::paper();
/// let options = LayoutOptions::new(Goal::Writes { window: 0 }, Budget::copies(2.0));
/// let layout = lay_out(column.clone(), 256, &pattern, &options)?;
/// assert_eq!(layout.map.decode(&layout.slots)?, column);
/// assert_eq!(Analyser::default().words(&layout.slots, &pattern).mean_write_rounds(), 1.0);
/// # Ok::<(), galatea_layout::LayoutError>(())
/// ```
///
/// # Errors
/// The errors of [`Budget::slots`]; [`LayoutError::Value`] for a row with a value that is not below `values`;
/// [`LayoutError::Width`] for a pattern of more than 32 lanes.
pub fn lay_out<P: AccessPattern + ?Sized>(
    column: Vec<u32>,
    values: usize,
    pattern: &P,
    options: &LayoutOptions,
) -> Result<Layout> {
    let started = Instant::now();
    let slots_permitted = options.budget.slots(values)?;
    if pattern.lanes() > crate::WIDEST as usize {
        return Err(LayoutError::Width {
            what: "lanes",
            asked: u32::try_from(pattern.lanes()).unwrap_or(u32::MAX),
            limit: crate::WIDEST,
        });
    }
    let outside = column
        .par_iter()
        .position_first(|&value| value as usize >= values);
    if let Some(row) = outside {
        let value = column[row];
        return Err(LayoutError::Value { row, value, values });
    }

    let log = CopyLog::new(TableShape {
        banks: options.banks,
        values,
        limit: slots_permitted,
    });
    // Rows of different blocks are written concurrently; only the pattern maps rows to blocks.
    let column: Vec<AtomicU32> = column.into_iter().map(AtomicU32::new).collect();
    let blocks = pattern.blocks(column.len());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut worker = Worker::new(&log, options.goal, options.banks.mask());
        loop {
            let block = next.fetch_add(1, Ordering::Relaxed);
            if block >= blocks {
                return worker.steps;
            }
            worker.block(&column, pattern, block);
        }
    };
    let threads = options.threads.get().min(blocks.max(1));
    let mut steps = Steps::default();
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        steps += work();
        for other in others {
            match other.join() {
                Ok(some) => steps += some,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    let slots: Vec<u32> = column.into_iter().map(AtomicU32::into_inner).collect();
    let map = log.into_map();
    let elapsed = started.elapsed();

    let copies = map.copies();
    let report = LayoutReport {
        steps,
        values,
        slots: map.slots(),
        holes: map.holes(),
        slots_permitted,
        replicated: copies.iter().filter(|&&copies| copies > 1).count(),
        most_copies: copies.into_iter().max().unwrap_or(0),
        threads,
        elapsed,
    };
    Ok(Layout { slots, map, report })
}
