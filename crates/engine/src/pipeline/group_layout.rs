//! Which way dense groups are collected: the model of `galatea_layout` over a sample of the rows.

use super::bind::{AccumulatorPlan, Strategy};
use super::generate::Shape;
use super::sink::shared::{SharedHome, SharedLayout};
use crate::config::{GroupBy, GroupRuns};
use galatea_layout::Frequencies;
use galatea_layout::model::{
    AccumulatorLayout, Accumulators, Cost, GroupedAggregation, Groups, Launch, PlacedColumn, overlapped,
    predict_layout,
};
use std::collections::HashMap;
use std::fmt::Write;

/// Words of registers that groups may take of a thread.
const REGISTER_WORDS: u64 = 16;
/// Rows of a thread that start a group anew, at most, for runs to pay.
const RUNS: f64 = 0.5;
/// Rows of a sample that a group has, at least, to get registers of its own.
const HOT: f64 = 0.1;
/// Rows of a sample that a group has, at least, for atomics on it in device memory to take longer than all the others: an H200 does
/// 25 G random ones per second and 1.4 G on one address.
const CONTENDED: f64 = 0.05;
/// What registers of a hot group add to the time: lanes part, and the kernel has fewer registers for rows. On an H200 10 to 23 %.
const HOT_COST: f64 = 0.17;
/// What runs add to the time, and what more where every row begins one: on an H200 6 to 40 % for sorted rows, and 50 % in TPC-H's
/// first query, whose sums take many registers.
const RUN_COST: (f64, f64) = (0.6, 0.4);
/// Groups that get them at most.
const HOT_GROUPS: usize = 2;
/// Shared memory that the model leaves for what else a kernel keeps there.
const OTHER_SHARED_BYTES: u64 = 2 << 10;

/// What is known of the groups when a way is chosen.
#[derive(Debug)]
pub struct GroupedRows<'a> {
    /// Groups there can be.
    pub groups: u64,
    /// What is kept per group.
    pub plan: &'a AccumulatorPlan,
    /// Rows of the table.
    pub rows: u64,
    /// Bytes of the columns of a row.
    pub row_bytes: usize,
    /// Rows a thread holds.
    pub items: u32,
    /// The groups of some rows, in the order in which lanes touch them.
    pub sample: Option<Sample>,
    /// The column of the only key, where it is placed.
    pub placed: Option<PlacedKey>,
}

/// Groups of runs of rows that one warp takes in one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Access by access, 32 rows each.
    pub groups: Vec<u32>,
    /// Share of the rows whose group is another than that of the row before in the same thread.
    pub changes: f64,
}

impl Sample {
    /// The most frequent groups, if they are frequent enough to get registers of their own.
    fn hot(&self) -> Vec<u32> {
        let rows = self.frequencies();
        let frequent = |(rows, _): &&(usize, u32)| *rows as f64 >= HOT * self.groups.len() as f64;
        rows.iter()
            .take(HOT_GROUPS)
            .take_while(frequent)
            .map(|(_, group)| *group)
            .collect()
    }

    /// Rows of each group, most first.
    fn frequencies(&self) -> Vec<(usize, u32)> {
        let mut rows: HashMap<u32, usize> = HashMap::new();
        self.groups
            .iter()
            .for_each(|group| *rows.entry(*group).or_default() += 1);
        let mut rows: Vec<(usize, u32)> = rows.into_iter().map(|(group, rows)| (rows, group)).collect();
        rows.sort_unstable_by(|one, other| other.cmp(one));
        rows
    }

    /// Share of the rows that the most frequent group has.
    fn most(&self) -> f64 {
        let most = self.frequencies().first().map_or(0, |(rows, _)| *rows);
        most as f64 / self.groups.len().max(1) as f64
    }

    /// The same rows, those of hot groups each in a group of its own lane's bank: they do not meet in shared memory.
    fn without(&self, hot: &[u32], groups: u64) -> Vec<u32> {
        let beyond = groups.next_multiple_of(32) as u32;
        let own = |(row, group): (usize, &u32)| {
            if hot.contains(group) {
                beyond + (row % 32) as u32
            } else {
                *group
            }
        };
        self.groups.iter().enumerate().map(own).collect()
    }
}

/// A key that is a placed column.
#[derive(Debug, Clone, Copy)]
pub struct PlacedKey {
    /// Where its groups are.
    pub home: SharedHome,
    /// What it costs.
    pub column: PlacedColumn,
}

/// The chosen way, and why.
#[derive(Debug)]
pub struct GroupChoice {
    /// How rows are collected.
    pub strategy: Strategy,
    /// The groups that have registers of their own.
    pub hot: Vec<u32>,
    /// For people.
    pub why: String,
}

struct Candidate {
    layout: SharedLayout,
    cost: Cost,
}

/// Chooses for dense groups, honouring what is forced.
pub fn choose(rows: &GroupedRows<'_>, shape: &Shape) -> GroupChoice {
    let hot = rows.sample.as_ref().map(Sample::hot).unwrap_or_default();
    let mut candidates = candidates(rows, shape, shape.group_by, &hot);
    if candidates.is_empty() && !matches!(shape.group_by, GroupBy::Dense | GroupBy::Hash) {
        // What was forced cannot hold the groups: as many copies as can.
        let any = Shape {
            group_copies: 0,
            ..*shape
        };
        candidates = self::candidates(rows, &any, GroupBy::Copies, &hot);
    }
    let Some(best) = candidates.first() else {
        let most = rows.sample.as_ref().map_or(0.0, Sample::most);
        let why = match shape.group_by {
            GroupBy::Dense => "forced",
            _ => "no room for the groups in shared memory",
        };
        return GroupChoice {
            strategy: Strategy::Dense {
                groups: rows.groups,
                warps: most >= CONTENDED,
            },
            hot: Vec::new(),
            why: format!(
                "{why}; the largest group of a sample has {:.1} % of the rows",
                most * 100.0
            ),
        };
    };
    GroupChoice {
        strategy: Strategy::Shared(best.layout),
        hot: hot.into_iter().take(best.layout.hot as usize).collect(),
        why: explain(&candidates, rows, shape.machine.measured),
    }
}

/// What fits, cheapest first.
fn candidates(rows: &GroupedRows<'_>, shape: &Shape, forced: GroupBy, hot: &[u32]) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (home, way) in homes(rows, shape, forced) {
        let copies = matches!(home, SharedHome::Copies { .. });
        let changes = rows.sample.as_ref().map_or(1.0, |sample| sample.changes);
        let runs: &[bool] = match shape.group_runs {
            GroupRuns::On => &[home != SharedHome::Registers],
            GroupRuns::Auto if copies && changes < RUNS => &[false, true],
            GroupRuns::Auto | GroupRuns::Off => &[false],
        };
        for runs in runs {
            candidates.extend(candidate(rows, shape, home, way, *runs, &[]));
        }
        if copies && shape.group_runs == GroupRuns::Auto && registers(rows, hot) {
            candidates.extend(candidate(rows, shape, home, way, false, hot));
        }
    }
    candidates.sort_by(|one, other| one.cost.seconds.total_cmp(&other.cost.seconds));
    candidates
}

/// Whether there are hot groups, and registers for them.
fn registers(rows: &GroupedRows<'_>, hot: &[u32]) -> bool {
    let words = hot.len() as u64 * rows.plan.partial_words as u64;
    (1..=REGISTER_WORDS).contains(&words)
}

/// The homes that may be taken, simple ones first.
fn homes(rows: &GroupedRows<'_>, shape: &Shape, forced: GroupBy) -> Vec<(SharedHome, AccumulatorLayout)> {
    let allowed = |way| forced == GroupBy::Auto || forced == way;
    let mut homes = Vec::new();
    if allowed(GroupBy::Registers) && rows.groups * rows.plan.partial_words as u64 <= REGISTER_WORDS {
        homes.push((SharedHome::Registers, AccumulatorLayout::PerThread));
    }
    if allowed(GroupBy::Threads) {
        homes.push((SharedHome::Threads, AccumulatorLayout::PerThread));
    }
    if allowed(GroupBy::Placed)
        && let Some(placed) = &rows.placed
    {
        homes.push((placed.home, AccumulatorLayout::Placed));
    }
    if allowed(GroupBy::Copies) {
        for copies in [1, 2, 4, 8, 16, 32] {
            if ![0, copies].contains(&shape.group_copies) {
                continue;
            }
            // A stride of 32 gives every lane a bank of its own; fewer copies are spread over the banks by an odd one.
            let stride = if copies == 1 || copies == 32 {
                copies
            } else {
                copies + 1
            };
            let home = SharedHome::Copies { copies, stride };
            homes.push((home, AccumulatorLayout::Replicated { copies, stride }));
        }
    }
    homes
}

/// The home in blocks of the size that suits it; `None` where it does not fit.
fn candidate(
    rows: &GroupedRows<'_>,
    shape: &Shape,
    home: SharedHome,
    way: AccumulatorLayout,
    runs: bool,
    hot: &[u32],
) -> Option<Candidate> {
    let limit = shape.shared_bytes.saturating_sub(OTHER_SHARED_BYTES);
    let machine = &shape.machine;
    let blocks: &[u32] = match shape.block {
        0 if matches!(home, SharedHome::Threads | SharedHome::Registers) => &[256],
        0 => &[256, 512, 1024],
        _ => std::slice::from_ref(&shape.block),
    };
    let sizes = blocks.iter().map(|block| SharedLayout {
        groups: rows.groups,
        home,
        runs,
        hot: hot.len() as u32,
        block: *block,
    });
    let fitting: Vec<SharedLayout> = sizes.filter(|layout| layout.bytes(rows.plan) <= limit).collect();
    // The smallest blocks that keep half of the threads busy.
    let busy = |layout: &&SharedLayout| {
        let blocks = machine.resident_blocks(layout.block, layout.bytes(rows.plan) + 1024);
        blocks * layout.block * 2 >= machine.threads
    };
    let layout = *fitting.iter().find(busy).or(fitting.last())?;
    let (uniform, cool);
    let groups = match &rows.sample {
        Some(sample) if !hot.is_empty() => {
            cool = sample.without(hot, rows.groups);
            Groups::Sample {
                rows: &cool,
                groups: rows.groups.next_multiple_of(32) as usize + 32,
            }
        }
        Some(sample) => Groups::Sample {
            rows: &sample.groups,
            groups: rows.groups as usize,
        },
        None => {
            uniform = Frequencies::zipf(rows.groups as usize, 0.5).ok()?;
            Groups::Frequencies(&uniform)
        }
    };
    let aggregation = GroupedAggregation {
        rows: rows.rows,
        row_bytes: rows.row_bytes as f64,
        groups,
        accumulators: accumulators(rows.plan),
        placed: rows.placed.map(|placed| placed.column),
    };
    let launch = Launch {
        threads: layout.block,
        rows_per_thread: rows.items,
        shared_bytes: limit,
    };
    let mut cost = if home == SharedHome::Registers {
        in_registers(&aggregation, &launch, shape, rows)?
    } else {
        predict_layout(&aggregation, &launch, machine, way).cost.ok()?
    };
    if runs {
        // Only rows that begin a group anew reach shared memory; where it begins, lanes part.
        let changes = rows.sample.as_ref().map_or(1.0, |sample| sample.changes);
        cost.shared_seconds *= changes;
        cost.seconds = overlapped(cost.memory_seconds, cost.shared_seconds)
            * (1.0 + RUN_COST.0 + RUN_COST.1 * changes.min(1.0))
            + cost.merge_seconds;
    }
    cost.seconds *= 1.0 + HOT_COST * hot.len() as f64;
    Some(Candidate { layout, cost })
}

/// Registers: no shared memory, but every row looks at every group.
fn in_registers(
    aggregation: &GroupedAggregation<'_>,
    launch: &Launch,
    shape: &Shape,
    rows: &GroupedRows<'_>,
) -> Option<Cost> {
    let one = GroupedAggregation {
        groups: Groups::Sample { rows: &[], groups: 1 },
        ..*aggregation
    };
    let memory = predict_layout(&one, launch, &shape.machine, AccumulatorLayout::OneCopy)
        .cost
        .ok()?;
    let instructions = rows.groups as f64 * (1.0 + 3.0 * rows.plan.partial_words as f64);
    // A round is 32 lanes of one instruction in shared memory; there are four times as many of arithmetic.
    let arithmetic = rows.rows as f64 * instructions / 32.0 / (4.0 * shape.machine.rounds_per_second);
    Some(Cost {
        seconds: overlapped(memory.memory_seconds, arithmetic),
        shared_seconds: arithmetic,
        merge_seconds: 0.0,
        rounds: 0.0,
        ..memory
    })
}

fn accumulators(plan: &AccumulatorPlan) -> Accumulators {
    use super::aggregate::Accumulator;
    let mut found = Accumulators {
        counts: 0,
        sums: 0,
        wide_sums: 0,
        high_halves: 0.2,
    };
    for contribution in &plan.contributions {
        match contribution.accumulator {
            Accumulator::Count => found.counts += 1,
            Accumulator::Sum128 => found.wide_sums += 2,
            // Doubles and maxima are read and compared and swapped, which costs about what two halves do.
            Accumulator::Sum64 | Accumulator::SumWidening | Accumulator::SumF64 | Accumulator::Max64 => {
                found.wide_sums += 1;
            }
        }
    }
    found
}

/// The best, what bounds it, and what the others would cost of it.
fn explain(candidates: &[Candidate], rows: &GroupedRows<'_>, measured: bool) -> String {
    let Some(best) = candidates.first() else {
        return String::new();
    };
    let bound = if best.cost.merge_seconds > best.cost.memory_seconds.max(best.cost.shared_seconds) {
        "merging"
    } else if best.cost.memory_seconds >= best.cost.shared_seconds {
        "device memory"
    } else {
        "shared memory"
    };
    let seen = if rows.sample.is_some() {
        "sampled"
    } else {
        "guessed"
    };
    let mut text = format!(
        "{:.3} ms bound by {bound}, groups {seen}, constants {}",
        best.cost.seconds * 1e3,
        if measured { "measured" } else { "scaled" }
    );
    for other in candidates.iter().skip(1).take(4) {
        let _ = write!(
            text,
            "; {} x{:.2}",
            other.layout,
            other.cost.seconds / best.cost.seconds
        );
    }
    text
}
