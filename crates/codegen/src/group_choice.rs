//! Chooses the strategy of dense groups, by applying the cost model of `galatea_layout` to a sample of the
//! rows.

use super::accumulators::{AccumulatorPlan, Contribution};
use super::aggregate::Accumulator;
use super::group_layout::{ColumnSlots, DenseLayout, SharedLayout};
use super::options::KernelOptions;
use super::sample::{Sample, Updates};
use super::strategy::Strategy;
use crate::choices::{GroupBy, GroupCombine};
use galatea_base::policy::policy;
use galatea_layout::Frequencies;
use galatea_layout::model::{
    AccumulatorLayout, Accumulators, Cost, GroupedAggregation, Groups, LaidOutColumn, Launch, Machine,
    overlapped, predict_layout,
};
use std::fmt::Write;

policy! {
    /// Constants of the choice that the cost model of grouped aggregation does not cover.
    pub(super) struct GroupPolicy {
        /// Maximum number of register words per thread for groups.
        register_words: u64 = 16,
        /// Maximum share of a thread's rows that start a new run of a group, for pre-aggregation of runs to
        /// pay.
        runs: f64 = 0.5,
        /// Maximum slowdown of atomics on groups that miss the L2 cache; measured on an H200.
        l2_miss_slowdown: f64 = 2.2,
        /// Registers of a multiprocessor, the same on every NVIDIA GPU since 2012.
        registers: u32 = 64 << 10,
        /// Maximum number of registers per thread.
        most_registers: u32 = 255,
        /// Approximate number of registers that code takes besides the rows of a thread.
        code_registers: u32 = 16,
        /// Minimum share of the time spent on merging blocks for larger (and thus fewer) blocks to be
        /// considered, and minimum share that they must save.
        merging: f64 = 0.03,
        /// Cost of the test for a carry that does not occur, relative to an update of the high half.
        carry: f64 = 0.2,
        /// Share of time that the registers of a hot group add: lanes diverge, and the kernel has fewer
        /// registers for rows. 10 to 23 % on an H200.
        hot_cost: f64 = 0.17,
        /// Share of time that pre-aggregation of runs adds, and the additional share if every row begins a
        /// run. On an H200, 6 to 40 % for sorted rows, and 50 % in TPC-H's first query with its many
        /// registers for sums.
        run_cost: [f64; 2] = [0.6, 0.4],
        /// Bytes of shared memory that the model leaves for other uses of the kernel.
        other_shared_bytes: u64 = 2 << 10,
        /// Share of a multiprocessor's cache and shared memory that lookups need as cache. SSB 3.2 looks up
        /// 120 million rows and has 15,000 groups: 1.47 ms if groups in shared memory leave less cache, 0.45
        /// ms with all of it (H200).
        cache_share: f64 = 0.5,
        /// Share of grouped rows above which groups stay in shared memory however little cache they leave:
        /// the atomics of more rows take as long as lookups that miss the cache.
        grouped_share: f64 = 0.25,
        /// Maximum time, relative to the fastest strategy, of a strategy that leaves enough cache for
        /// lookups.
        spared_cache: f64 = 1.25,
    }
}

const POLICY: GroupPolicy = GroupPolicy::DEFAULT;

/// Properties of the groups that the choice depends on.
#[derive(Debug)]
pub(super) struct GroupedRows<'a> {
    /// Number of possible groups.
    pub groups: u64,
    /// Accumulators of each group.
    pub plan: &'a AccumulatorPlan,
    /// Number of rows of the table.
    pub rows: u64,
    /// Share of the rows that is expected to pass the filters.
    pub passing: f64,
    /// Whether rows look up build sides through the cache.
    pub looks_up: bool,
    /// Bytes per row of all columns.
    pub row_bytes: usize,
    /// Rows per thread in a step.
    pub items: u32,
    /// Instructions per row besides the updates of accumulators.
    pub instructions: f64,
    /// The groups of sampled rows, in the order of the lanes' accesses.
    pub sample: Option<Sample>,
    /// The only key's column, if it is laid out.
    pub slots: Option<SlotKey>,
}

/// A key that is a laid-out column.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotKey {
    /// Slots of the column.
    pub slots: ColumnSlots,
    /// Cost of reading the column.
    pub column: LaidOutColumn,
}

/// The chosen strategy.
#[derive(Debug)]
pub(super) struct GroupChoice {
    /// How rows are collected.
    pub strategy: Strategy,
    /// The groups that are accumulated in registers.
    pub hot: Vec<u32>,
    /// The reason, for EXPLAIN.
    pub why: String,
}

struct Candidate {
    layout: SharedLayout,
    cost: Cost,
}

/// Chooses a strategy for dense groups; a forced strategy is preferred.
pub(super) fn choose(rows: &GroupedRows<'_>, options: &KernelOptions) -> GroupChoice {
    let hot = rows.sample.as_ref().map(Sample::hot).unwrap_or_default();
    let mut candidates = candidates(rows, options, options.group_by, &hot);
    if candidates.is_empty() && !matches!(options.group_by, GroupBy::Dense | GroupBy::Hash) {
        // The forced strategy cannot hold the groups: use the maximum number of copies that fits.
        let any = KernelOptions {
            group_copies: 0,
            ..*options
        };
        candidates = self::candidates(rows, &any, GroupBy::Copies, &hot);
    }
    let Some(best) = candidates.first() else {
        return dense(rows, options, "the groups do not fit in shared memory");
    };
    let best = match options.group_by {
        GroupBy::Auto => {
            let limit = POLICY.spared_cache * best.cost.seconds;
            let mut spares = candidates.iter().filter(|one| one.cost.seconds <= limit);
            spares.find(|one| !one.starves_lookups(rows, &options.machine))
        }
        _ => Some(best),
    };
    let Some(best) = best else {
        let why = "in shared memory groups would leave lookups too little of the cache";
        return dense(rows, options, why);
    };
    GroupChoice {
        strategy: Strategy::Shared(best.layout),
        hot: hot.into_iter().take(best.layout.hot as usize).collect(),
        why: explain(&candidates, rows, options.machine.measured),
    }
}

impl Candidate {
    /// Whether the layout leaves too little cache for lookups although only few rows are grouped.
    fn starves_lookups(&self, rows: &GroupedRows<'_>, machine: &Machine) -> bool {
        let bytes = self.layout.bytes(rows.plan);
        let blocks = u64::from(machine.resident_blocks(self.layout.block, bytes));
        let cache = machine.cache_bytes(blocks * (bytes + machine.shared_bytes_reserved));
        let wanted = POLICY.cache_share * machine.cache_and_shared_bytes as f64;
        rows.looks_up && rows.passing < POLICY.grouped_share && (cache as f64) < wanted
    }
}

/// Accumulators in device memory. `why` is the reason, unless the strategy is forced.
fn dense(rows: &GroupedRows<'_>, options: &KernelOptions, why: &str) -> GroupChoice {
    let warps = options.aggregates_warps();
    let bytes = 8 * rows.plan.words as u64;
    let (updates, seen) = match &rows.sample {
        Some(sample) => (sample.updates(bytes, warps), "in a sample"),
        None => (Updates::GUESSED, "guessed"),
    };
    let copies = dense_copies(rows, options, updates, warps);
    let why = match options.group_by {
        GroupBy::Dense => "forced",
        _ => why,
    };
    GroupChoice {
        strategy: Strategy::Dense(DenseLayout {
            groups: rows.groups,
            warp_aggregated: warps,
            copies,
        }),
        hot: Vec::new(),
        why: format!(
            "{why}; {:.1} % of the updates go to one KiB of groups, {seen}",
            100.0 * updates.in_a_kib / updates.all
        ),
    }
}

/// Number of copies of the groups in device memory. More copies speed up updates of the hottest KiB, but take
/// longer to clear and to add up.
fn dense_copies(rows: &GroupedRows<'_>, options: &KernelOptions, updates: Updates, warps: bool) -> u32 {
    let machine = &options.machine;
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
        // Half of the L2 cache is near. Groups larger than the whole cache are limited by device memory.
        let far = (2.0 * bytes * copies / machine.l2_bytes as f64)
            .sqrt()
            .clamp(1.0, POLICY.l2_miss_slowdown);
        let cleared_and_added = 3.0 * bytes * copies / machine.memory_bytes_per_second;
        hot + all * far + cleared_and_added
    };
    let fits = |copies: &u32| *copies == 1 || f64::from(*copies) * bytes <= options.copies_bytes as f64;
    if options.group_copies > 0 {
        return if fits(&options.group_copies) {
            options.group_copies
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

/// The layouts that fit, cheapest first.
fn candidates(
    rows: &GroupedRows<'_>,
    options: &KernelOptions,
    forced: GroupBy,
    hot: &[u32],
) -> Vec<Candidate> {
    let changes = rows.sample.as_ref().map_or(1.0, |sample| sample.changes);
    let mut candidates = Vec::new();
    for layout in layouts(rows, options, forced) {
        let replicated = matches!(
            layout,
            AccumulatorLayout::OneCopy | AccumulatorLayout::Replicated { .. }
        );
        let runs: &[bool] = match options.group_combine {
            GroupCombine::Runs if layout != AccumulatorLayout::Registers => &[true],
            GroupCombine::Auto if replicated && changes < POLICY.runs => &[false, true],
            _ => &[false],
        };
        for runs in runs {
            candidates.extend(candidate(rows, options, layout, *runs, &[]));
        }
        if replicated && options.group_combine == GroupCombine::Auto && registers(rows, hot) {
            candidates.extend(candidate(rows, options, layout, false, hot));
        }
    }
    candidates.sort_by(|one, other| one.cost.seconds.total_cmp(&other.cost.seconds));
    candidates
}

/// Whether hot groups exist and fit into registers.
fn registers(rows: &GroupedRows<'_>, hot: &[u32]) -> bool {
    let words = hot.len() as u64 * rows.plan.partial_words as u64;
    (1..=POLICY.register_words).contains(&words)
}

/// The allowed layouts, simple ones first.
fn layouts(rows: &GroupedRows<'_>, options: &KernelOptions, forced: GroupBy) -> Vec<AccumulatorLayout> {
    let allowed = |way| forced == GroupBy::Auto || forced == way;
    let mut layouts = Vec::new();
    if allowed(GroupBy::Registers) && rows.groups * rows.plan.partial_words as u64 <= POLICY.register_words {
        layouts.push(AccumulatorLayout::Registers);
    }
    if allowed(GroupBy::Threads) {
        layouts.push(AccumulatorLayout::PerThread);
    }
    if allowed(GroupBy::Slots) && rows.slots.is_some() {
        layouts.push(AccumulatorLayout::Slots);
    }
    if !allowed(GroupBy::Copies) {
        return layouts;
    }
    for copies in [1, 2, 4, 8, 16, 32] {
        if ![0, copies].contains(&options.group_copies) {
            continue;
        }
        match (copies, options.group_combine) {
            (1, GroupCombine::Warps) => layouts.push(AccumulatorLayout::WarpAggregated),
            (1, GroupCombine::Auto) => {
                layouts.extend([AccumulatorLayout::OneCopy, AccumulatorLayout::WarpAggregated]);
            }
            (1, _) => layouts.push(AccumulatorLayout::OneCopy),
            (_, GroupCombine::Warps) => {}
            // With a stride of 32 every lane has its own bank. An odd stride spreads fewer copies over all
            // banks.
            (32, _) => layouts.push(AccumulatorLayout::Replicated { copies, stride: 32 }),
            _ => layouts.push(AccumulatorLayout::Replicated {
                copies,
                stride: copies + 1,
            }),
        }
    }
    layouts
}

/// The layout with the best block size; `None` if it does not fit.
fn candidate(
    rows: &GroupedRows<'_>,
    options: &KernelOptions,
    accumulators: AccumulatorLayout,
    runs: bool,
    hot: &[u32],
) -> Option<Candidate> {
    let limit = options.shared_bytes.saturating_sub(POLICY.other_shared_bytes);
    let blocks: &[u32] = match options.block {
        0 if matches!(
            accumulators,
            AccumulatorLayout::PerThread | AccumulatorLayout::Registers
        ) =>
        {
            &[256]
        }
        0 => &[256, 512, 1024],
        _ => std::slice::from_ref(&options.block),
    };
    let sizes = blocks.iter().map(|block| SharedLayout {
        groups: rows.groups,
        accumulators,
        slots: match accumulators {
            AccumulatorLayout::Slots => rows.slots.map(|key| key.slots),
            _ => None,
        },
        runs,
        hot: hot.len() as u32,
        block: *block,
    });
    let mut fitting = sizes.filter(|layout| layout.bytes(rows.plan) <= limit).peekable();
    // Sampling rows of millions of groups takes longer than most queries, and such group tables never fit.
    fitting.peek()?;
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
    let price = |layout: SharedLayout| {
        let machine = &with_registers(&options.machine, rows, layout.block);
        let aggregation = GroupedAggregation {
            rows: rows.rows,
            row_bytes: rows.row_bytes as f64,
            groups,
            accumulators: kept(rows.plan),
            laid_out: rows.slots.map(|key| key.column),
            instructions: rows.instructions + update_instructions(rows.plan, &layout),
        };
        let launch = Launch {
            threads: layout.block,
            rows_per_thread: rows.items,
            shared_bytes: limit,
        };
        let mut cost = predict_layout(&aggregation, &launch, machine, accumulators)
            .cost
            .ok()?;
        if runs {
            // Only the first row of a run updates shared memory. Lanes with runs that start at different rows
            // diverge.
            let changes = rows.sample.as_ref().map_or(1.0, |sample| sample.changes);
            cost.shared_seconds *= changes;
            cost.seconds = overlapped([cost.memory_seconds, cost.shared_seconds, cost.issue_seconds])
                * (1.0 + POLICY.run_cost[0] + POLICY.run_cost[1] * changes.min(1.0))
                + cost.merge_seconds;
        }
        cost.seconds *= 1.0 + POLICY.hot_cost * hot.len() as f64;
        Some(Candidate { layout, cost })
    };
    // Chooses the smallest blocks that keep half of the threads busy, or larger ones if they save enough
    // merging time.
    let busy = |layout: &SharedLayout| {
        let blocks = options
            .machine
            .resident_blocks(layout.block, layout.bytes(rows.plan) + 1024);
        blocks * layout.block * 2 >= options.machine.threads
    };
    let mut best: Option<Candidate> = None;
    for layout in fitting {
        let worth = match &best {
            // Registers of hot groups leave too few registers for the rows of very large blocks.
            Some(best) if busy(&best.layout) && !hot.is_empty() && layout.block > 512 => false,
            Some(best) if busy(&best.layout) => best.cost.merge_seconds > POLICY.merging * best.cost.seconds,
            _ => true,
        };
        if !worth {
            break;
        }
        let found = price(layout);
        let better = match (&best, &found) {
            (Some(best), Some(found)) => {
                !busy(&best.layout) || found.cost.seconds < (1.0 - POLICY.merging) * best.cost.seconds
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
    let words = plan.partial_words as f64;
    match layout.accumulators {
        // Every row is compared with every group.
        AccumulatorLayout::Registers => layout.groups as f64 * (1.0 + 2.0 * words),
        // Rows of a run are added up in registers.
        _ if layout.runs => 10.0 + 3.0 * words,
        AccumulatorLayout::PerThread => 3.0 + 4.0 * words,
        // A warp match, then a tree of shuffles for each word.
        AccumulatorLayout::WarpAggregated => 100.0 + 40.0 * words,
        AccumulatorLayout::OneCopy | AccumulatorLayout::Replicated { .. } | AccumulatorLayout::Slots => {
            let update = |c: &Contribution| match c.accumulator {
                Accumulator::Count => 1.0,
                Accumulator::Or64 | Accumulator::Xor64 => 4.0,
                Accumulator::Sum64 | Accumulator::SumWidening if c.is_narrow() => 5.0,
                Accumulator::Sum64 | Accumulator::SumWidening | Accumulator::Max64 => 10.0,
                Accumulator::Sum128 | Accumulator::SumF64 => 25.0,
            };
            3.0 + plan.contributions.iter().map(update).sum::<f64>()
        }
    }
}

/// The machine with its threads per multiprocessor limited by registers: each thread holds its rows and needs
/// registers for code. One block runs in any case.
fn with_registers(machine: &Machine, rows: &GroupedRows<'_>, block: u32) -> Machine {
    let of_rows = u32::try_from(rows.row_bytes)
        .unwrap_or(u32::MAX)
        .saturating_mul(rows.items)
        / 4;
    let registers = POLICY
        .code_registers
        .saturating_add(of_rows)
        .next_multiple_of(8)
        .min(POLICY.most_registers);
    Machine {
        threads: machine.threads.min((POLICY.registers / registers).max(block)),
        ..*machine
    }
}

/// The accumulators of a group, in the terms of the model.
fn kept(plan: &AccumulatorPlan) -> Accumulators {
    let mut found = Accumulators::default();
    let mut high_halves = 0.0;
    for contribution in &plan.contributions {
        let mut high = contribution.high_halves().max(POLICY.carry);
        let wide_sums = match contribution.accumulator {
            Accumulator::Count => {
                found.counts += 1;
                continue;
            }
            Accumulator::Sum128 => 2,
            Accumulator::Sum64 | Accumulator::SumWidening => 1,
            // Doubles and maxima are updated by compare-and-swap loops, which cost about as much as two
            // halves.
            Accumulator::SumF64 | Accumulator::Max64 | Accumulator::Or64 | Accumulator::Xor64 => {
                high = POLICY.carry;
                1
            }
        };
        found.wide_sums += wide_sums;
        high_halves += high * f64::from(wide_sums);
    }
    found.high_halves = high_halves / f64::from(found.wide_sums.max(1));
    found
}

/// The best layout, its bottleneck, and the relative cost of the other layouts.
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
