//! Which way dense groups are collected: the model of `galatea_layout` over a sample of the rows.

use super::bind::{AccumulatorPlan, Contribution, Strategy};
use super::generate::Shape;
use super::sink::dense::DenseLayout;
use super::sink::shared::{Combine, SharedHome, SharedLayout};
use crate::config::{GroupBy, GroupCombine};
use galatea_layout::Frequencies;
use galatea_layout::model::{
    AccumulatorLayout, Accumulators, Cost, GroupedAggregation, Groups, Launch, Machine, PlacedColumn,
    overlapped, predict_layout,
};
use std::collections::HashMap;
use std::fmt::Write;

/// Words of registers that groups may take of a thread.
const REGISTER_WORDS: u64 = 16;
/// Rows of a thread that start a group anew, at most, for runs to pay.
const RUNS: f64 = 0.5;
/// Rows of a sample that a group has, at least, to get registers of its own.
const HOT: f64 = 0.1;
/// How much longer updates of groups in device memory take at most that its cache does not hold. So it was on
/// an H200.
const FARTHEST: f64 = 2.2;
/// Registers of a multiprocessor, of every NVIDIA GPU since 2012; those a thread can have, and those code
/// takes besides the rows that a thread holds, about.
const REGISTERS: u32 = 64 << 10;
const MOST_REGISTERS: u32 = 255;
const CODE_REGISTERS: u32 = 16;
/// Share of the time that merging blocks must take for larger ones, which are fewer, to be looked at, and
/// what they must save.
const MERGING: f64 = 0.03;
/// What looking for a carry costs of an update of the high half, where there is none.
const CARRY: f64 = 0.2;
/// What registers of a hot group add to the time: lanes part, and the kernel has fewer registers for rows. On
/// an H200 10 to 23 %.
const HOT_COST: f64 = 0.17;
/// What runs add to the time, and what more where every row begins one: on an H200 6 to 40 % for sorted rows,
/// and 50 % in TPC-H's first query, whose sums take many registers.
const RUN_COST: (f64, f64) = (0.6, 0.4);
/// Groups that get them at most.
const HOT_GROUPS: usize = 2;
/// Shared memory that the model leaves for what else a kernel keeps there.
const OTHER_SHARED_BYTES: u64 = 2 << 10;

/// What is known of the groups when a way is chosen.
#[derive(Debug)]
pub struct GroupedRows<'a> {
    /// Possible groups.
    pub groups: u64,
    /// What is kept per group.
    pub plan: &'a AccumulatorPlan,
    /// Rows of the table.
    pub rows: u64,
    /// Bytes of the columns of a row.
    pub row_bytes: usize,
    /// Rows a thread holds.
    pub items: u32,
    /// Instructions that a row takes besides its updates.
    pub instructions: f64,
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
    /// Updates of groups in device memory, of so many bytes each, where the lanes of a warp combine their
    /// rows or do not.
    fn updates(&self, group_bytes: u64, warps: bool) -> Updates {
        let mut reach: HashMap<u64, u32> = HashMap::new();
        let mut all = 0_u32;
        for access in self.groups.chunks(32) {
            for (lane, group) in access.iter().enumerate() {
                if !warps || !access[..lane].contains(group) {
                    *reach.entry(u64::from(*group) * group_bytes / 1024).or_default() += 1;
                    all += 1;
                }
            }
        }
        let most = reach.into_values().max().unwrap_or(0);
        let rows = self.groups.len().max(1) as f64;
        Updates {
            all: f64::from(all) / rows,
            in_a_kib: f64::from(most) / rows,
        }
    }

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

    /// The same rows, those of hot groups each in a group of its own lane's bank: they do not meet in shared
    /// memory.
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

/// Updates of groups in device memory, per row.
#[derive(Debug, Clone, Copy)]
struct Updates {
    all: f64,
    /// Those of that KiB of the groups to which most go.
    in_a_kib: f64,
}

impl Updates {
    /// Of groups of which nothing is known.
    const GUESSED: Self = Self {
        all: 0.5,
        in_a_kib: 0.1,
    };
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
        return dense(rows, shape);
    };
    GroupChoice {
        strategy: Strategy::Shared(best.layout),
        hot: hot.into_iter().take(best.layout.hot as usize).collect(),
        why: explain(&candidates, rows, shape.machine.measured),
    }
}

/// Accumulators in device memory.
fn dense(rows: &GroupedRows<'_>, shape: &Shape) -> GroupChoice {
    let warps = shape.combines_at_home();
    let bytes = 8 * rows.plan.words as u64;
    let (updates, seen) = match &rows.sample {
        Some(sample) => (sample.updates(bytes, warps), "in a sample"),
        None => (Updates::GUESSED, "guessed"),
    };
    let copies = dense_copies(rows, shape, updates, warps);
    let why = match shape.group_by {
        GroupBy::Dense => "forced",
        _ => "no room for the groups in shared memory",
    };
    GroupChoice {
        strategy: Strategy::Dense(DenseLayout {
            groups: rows.groups,
            warps,
            copies,
        }),
        hot: Vec::new(),
        why: format!(
            "{why}; {:.1} % of the updates go to one KiB of groups, {seen}",
            100.0 * updates.in_a_kib / updates.all
        ),
    }
}

/// Copies of groups in device memory: updates of the hottest KiB take less time with more, clearing and
/// adding them up takes more.
fn dense_copies(rows: &GroupedRows<'_>, shape: &Shape, updates: Updates, warps: bool) -> u32 {
    let machine = &shape.machine;
    let words = rows.rows as f64 * rows.plan.words as f64;
    let bytes = 8.0 * rows.plan.words as f64 * rows.groups as f64;
    let in_a_kib = if warps {
        machine.global_atomics_on_one_address
    } else {
        machine.global_atomics_in_a_kib()
    };
    let seconds = |copies: f64| {
        let hot = words * updates.in_a_kib / (in_a_kib * copies);
        let all = words * updates.all / machine.global_atomics_per_second;
        // Half of the L2 cache is near; beyond all of it, device memory is what limits updates.
        let far = (2.0 * bytes * copies / machine.l2_bytes as f64)
            .sqrt()
            .clamp(1.0, FARTHEST);
        let cleared_and_added = 3.0 * bytes * copies / machine.memory_bytes_per_second;
        hot + all * far + cleared_and_added
    };
    let fits = |copies: &u32| *copies == 1 || f64::from(*copies) * bytes <= shape.copies_room as f64;
    if shape.group_copies > 0 {
        return if fits(&shape.group_copies) {
            shape.group_copies
        } else {
            1
        };
    }
    [1, 2, 4, 8, 16, 32]
        .into_iter()
        .filter(fits)
        .min_by(|one, other| seconds(f64::from(*one)).total_cmp(&seconds(f64::from(*other))))
        .unwrap_or(1)
}

/// What fits, cheapest first.
fn candidates(rows: &GroupedRows<'_>, shape: &Shape, forced: GroupBy, hot: &[u32]) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (home, way) in homes(rows, shape, forced) {
        let copies = matches!(home, SharedHome::Copies { .. });
        let changes = rows.sample.as_ref().map_or(1.0, |sample| sample.changes);
        let few = matches!(home, SharedHome::Copies { copies: 1, .. });
        let shared = !matches!(home, SharedHome::Registers | SharedHome::Threads);
        let combine: &[Combine] = match shape.group_combine {
            GroupCombine::Runs if home != SharedHome::Registers => &[Combine::Runs],
            GroupCombine::Warps if shared => &[Combine::Warps],
            GroupCombine::Auto if few && changes < RUNS => &[Combine::Nothing, Combine::Runs, Combine::Warps],
            GroupCombine::Auto if few => &[Combine::Nothing, Combine::Warps],
            GroupCombine::Auto if copies && changes < RUNS => &[Combine::Nothing, Combine::Runs],
            _ => &[Combine::Nothing],
        };
        for combine in combine {
            let way = match combine {
                Combine::Warps => AccumulatorLayout::WarpAggregated,
                _ => way,
            };
            candidates.extend(candidate(rows, shape, home, way, *combine, &[]));
        }
        if copies && shape.group_combine == GroupCombine::Auto && registers(rows, hot) {
            candidates.extend(candidate(rows, shape, home, way, Combine::Nothing, hot));
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
            // A stride of 32 gives every lane a bank of its own; fewer copies are spread over the banks by an
            // odd one.
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
    combine: Combine,
    hot: &[u32],
) -> Option<Candidate> {
    let limit = shape.shared_bytes.saturating_sub(OTHER_SHARED_BYTES);
    let blocks: &[u32] = match shape.block {
        0 if matches!(home, SharedHome::Threads | SharedHome::Registers) => &[256],
        0 => &[256, 512, 1024],
        _ => std::slice::from_ref(&shape.block),
    };
    let sizes = blocks.iter().map(|block| SharedLayout {
        groups: rows.groups,
        home,
        combine,
        hot: hot.len() as u32,
        block: *block,
    });
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
    let accumulators = accumulators(rows.plan);
    let price = |layout: SharedLayout| {
        let machine = &with_registers(&shape.machine, rows, layout.block);
        let aggregation = GroupedAggregation {
            rows: rows.rows,
            row_bytes: rows.row_bytes as f64,
            groups,
            accumulators,
            placed: rows.placed.map(|placed| placed.column),
            instructions: rows.instructions + update_instructions(rows.plan, &layout),
        };
        let launch = Launch {
            threads: layout.block,
            rows_per_thread: rows.items,
            shared_bytes: limit,
        };
        let mut cost = if home == SharedHome::Registers {
            in_registers(&aggregation, &launch, machine)?
        } else {
            predict_layout(&aggregation, &launch, machine, way).cost.ok()?
        };
        if combine == Combine::Runs {
            // Only rows that begin a group anew reach shared memory; where it begins, lanes part.
            let changes = rows.sample.as_ref().map_or(1.0, |sample| sample.changes);
            cost.shared_seconds *= changes;
            cost.seconds = overlapped([cost.memory_seconds, cost.shared_seconds, cost.issue_seconds])
                * (1.0 + RUN_COST.0 + RUN_COST.1 * changes.min(1.0))
                + cost.merge_seconds;
        }
        cost.seconds *= 1.0 + HOT_COST * hot.len() as f64;
        Some(Candidate { layout, cost })
    };
    // The smallest blocks that keep half of the threads busy, or larger ones where merging fewer of them is
    // worth it.
    let busy = |layout: &SharedLayout| {
        let blocks = shape
            .machine
            .resident_blocks(layout.block, layout.bytes(rows.plan) + 1024);
        blocks * layout.block * 2 >= shape.machine.threads
    };
    let mut best: Option<Candidate> = None;
    for layout in sizes.filter(|layout| layout.bytes(rows.plan) <= limit) {
        let worth = match &best {
            // Registers of hot groups leave too few for the rows of very large blocks.
            Some(best) if busy(&best.layout) && !hot.is_empty() && layout.block > 512 => false,
            Some(best) if busy(&best.layout) => best.cost.merge_seconds > MERGING * best.cost.seconds,
            _ => true,
        };
        if !worth {
            break;
        }
        let found = price(layout);
        let better = match (&best, &found) {
            (Some(best), Some(found)) => {
                !busy(&best.layout) || found.cost.seconds < (1.0 - MERGING) * best.cost.seconds
            }
            (None, _) => true,
            (_, None) => false,
        };
        if better {
            best = found;
        }
    }
    best
}

/// Instructions that update a row's accumulators.
fn update_instructions(plan: &AccumulatorPlan, layout: &SharedLayout) -> f64 {
    use super::aggregate::Accumulator;
    let words = plan.partial_words as f64;
    match (layout.home, layout.combine) {
        // Every row looks at every group.
        (SharedHome::Registers, _) => layout.groups as f64 * (1.0 + 2.0 * words),
        (SharedHome::Threads, _) => 3.0 + 4.0 * words,
        // Rows of a run are added up in registers.
        (_, Combine::Runs) => 10.0 + 3.0 * words,
        // Matching, and for each word a tree of shuffles.
        (_, Combine::Warps) => 100.0 + 40.0 * words,
        (_, Combine::Nothing) => {
            let update = |c: &Contribution| match c.accumulator {
                Accumulator::Count => 1.0,
                Accumulator::Sum64 | Accumulator::SumWidening if c.is_narrow() => 5.0,
                Accumulator::Sum64 | Accumulator::SumWidening | Accumulator::Max64 => 10.0,
                Accumulator::Sum128 | Accumulator::SumF64 => 25.0,
            };
            3.0 + plan.contributions.iter().map(update).sum::<f64>()
        }
    }
}

/// The machine with as many threads of a multiprocessor as registers allow, each of which holds its rows and
/// what code needs; one block runs in any case.
fn with_registers(machine: &Machine, rows: &GroupedRows<'_>, block: u32) -> Machine {
    let of_rows = u32::try_from(rows.row_bytes)
        .unwrap_or(u32::MAX)
        .saturating_mul(rows.items)
        / 4;
    let registers = CODE_REGISTERS
        .saturating_add(of_rows)
        .next_multiple_of(8)
        .min(MOST_REGISTERS);
    Machine {
        threads: machine.threads.min((REGISTERS / registers).max(block)),
        ..*machine
    }
}

/// Registers: no shared memory.
fn in_registers(aggregation: &GroupedAggregation<'_>, launch: &Launch, machine: &Machine) -> Option<Cost> {
    let one = GroupedAggregation {
        groups: Groups::Sample { rows: &[], groups: 1 },
        ..*aggregation
    };
    let memory = predict_layout(&one, launch, machine, AccumulatorLayout::OneCopy)
        .cost
        .ok()?;
    Some(Cost {
        seconds: overlapped([memory.memory_seconds, 0.0, memory.issue_seconds]),
        shared_seconds: 0.0,
        merge_seconds: 0.0,
        rounds: 0.0,
        ..memory
    })
}

fn accumulators(plan: &AccumulatorPlan) -> Accumulators {
    use super::aggregate::Accumulator;
    let mut found = Accumulators::default();
    let mut high_halves = 0.0;
    for contribution in &plan.contributions {
        let mut high = contribution.high_halves().max(CARRY);
        let wide_sums = match contribution.accumulator {
            Accumulator::Count => {
                found.counts += 1;
                continue;
            }
            Accumulator::Sum128 => 2,
            Accumulator::Sum64 | Accumulator::SumWidening => 1,
            // Doubles and maxima are read and compared and swapped, which costs about what two halves do.
            Accumulator::SumF64 | Accumulator::Max64 => {
                high = CARRY;
                1
            }
        };
        found.wide_sums += wide_sums;
        high_halves += high * f64::from(wide_sums);
    }
    found.high_halves = high_halves / f64::from(found.wide_sums.max(1));
    found
}

/// The best, what bounds it, and what the others would cost of it.
fn explain(candidates: &[Candidate], rows: &GroupedRows<'_>, measured: bool) -> String {
    let Some(best) = candidates.first() else {
        return String::new();
    };
    let seen = if rows.sample.is_some() {
        "sampled"
    } else {
        "guessed"
    };
    let mut text = format!(
        "{:.3} ms bound by {}, groups {seen}, constants {}",
        best.cost.seconds * 1e3,
        best.cost.bound(),
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
