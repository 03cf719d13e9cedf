//! Sinks: where the surviving rows of a pipeline go.
//!
//! Each sink contributes code at four places of the kernel: before the loop over units, at the start of a
//! unit, for a live row, and after the loop. Accumulators start at zero everywhere (`aggregate.cuh`), so
//! homes are memset.
//!
//! | sink | home of a group | merge |
//! | --- | --- | --- |
//! | `scalar` | registers of each thread | warp, block, then one atomic a word and block |
//! | `shared` | copies in shared memory, or registers | per group and word, then one atomic a block |
//! | `dense` | `groups[copy][group]` in global memory | copies are added up after the last launch |
//! | `hash` | slot of a hash table in global memory, or a partial group in heap pages | partial groups, between launches |
//! | `append` | not groups: rows at a cursor | none; drained by the host between launches |
//! | `build` | not groups: arrays by key; or groups in arrays by key, as in `dense` | none |
//! | `chains` | not groups: rows in heap pages, a chain a block | none; gathered, and drained only when the heap is dry |

pub mod append;
pub mod build;
pub mod chains;
pub mod dense;
pub mod hash;
mod hot;
pub mod kept;
pub mod scalar;
pub mod shared;

pub use append::OutputColumn;

use super::aggregate::Accumulator;
use super::bind::{AccumulatorPlan, Contribution, Strategy};
use super::generate::{BoundPipeline, ResultPlan, SinkFrame};
use std::fmt::Write;

/// The parts of the kernel around the rows.
pub fn frame(bound: &BoundPipeline) -> SinkFrame {
    match (&bound.strategy, &bound.result) {
        (Strategy::Scalar, ResultPlan::Groups { accumulators, .. }) => {
            scalar::frame_of_groups(accumulators, 1, bound.block)
        }
        (Strategy::Shared(layout), ResultPlan::Groups { accumulators, .. }) => {
            shared::frame(accumulators, layout, &bound.hot)
        }
        (
            Strategy::Hash { waits, .. },
            ResultPlan::Groups {
                key: Some(key),
                accumulators,
                ..
            },
        ) => hash::frame(accumulators, key, bound, *waits),
        (Strategy::Append { .. }, ResultPlan::Rows(_)) => append::frame(bound.block),
        (Strategy::Chains, ResultPlan::Rows(columns)) => chains::frame(columns),
        (Strategy::Build, ResultPlan::Build(plan)) => build::frame(plan),
        _ => SinkFrame::default(),
    }
}

/// Statements that add a row to registers of the thread; `word` is the address of partial word `w`.
fn add_to_registers(plan: &AccumulatorPlan, word: impl Fn(usize) -> String, code: &mut String) {
    for c in &plan.contributions {
        let words: Vec<String> = (c.partial..c.partial + c.accumulator.partial_words())
            .map(&word)
            .collect();
        add(c, "PrivateWords", c.accumulator.update_partial(), &words, code);
    }
}

/// Statements by which the lanes of a warp merge registers into those of lane 0; `word` names partial word
/// `w`, and `none` a register for high words there are not. `then` is what follows for an accumulator with
/// those low and high words.
fn merge_registers(
    plan: &AccumulatorPlan,
    word: impl Fn(usize) -> String,
    then: impl Fn(&Contribution, &str, &str) -> String,
) -> String {
    let mut code = String::new();
    for c in &plan.contributions {
        let low = word(c.partial);
        let high = match c.accumulator.partial_words() {
            2 => word(c.partial + 1),
            _ => "none".into(),
        };
        let _ = writeln!(code, "warp_merge<{}>({low}, {high});", c.accumulator.merge());
        code.push_str(&then(c, &low, &high));
    }
    code
}

/// Statements that add a row to the words in global memory at `at`.
fn add_to_home(plan: &AccumulatorPlan, code: &mut String) {
    for c in &plan.contributions {
        let words: Vec<String> = (c.word..c.word + c.accumulator.words())
            .map(|w| format!("at + {w}"))
            .collect();
        add(c, "GlobalWords", c.accumulator.update_home(), &words, code);
    }
}

/// Before the rows of a thread, by whole warps: the lanes that have any.
pub const WARP_LIVE: &str = "            const u32 warp_live = __ballot_sync(0xffffffffu, live != 0);\n";

/// Before a row, by the lanes that have any: the lanes that have this one. What lanes are together is
/// computed where all of them still are: the mask of active lanes is whatever the compiler makes of it, and
/// lanes that wait for others would hang.
pub const TOGETHER: &str = "const u32 together = __ballot_sync(warp_live, (live >> i & 1u) != 0);\n";

/// Statements by which those of the lanes `lanes` that update the same `place` combine their rows; the first
/// of them does `then` with the low and the high word of accumulator `k`.
fn combine_by_warps(
    plan: &AccumulatorPlan,
    (lanes, place): (&str, &str),
    code: &mut String,
    then: impl Fn(usize, &Contribution, &str, &str) -> String,
) {
    let words = row_words(plan, code);
    let _ = writeln!(code, "WarpPeers peers{{{lanes}, {place}}};");
    let (mut takes, mut adds) = (String::new(), String::new());
    for (k, c) in plan.contributions.iter().enumerate() {
        let (low, high) = (format!("low{k}"), format!("high{k}"));
        if c.accumulator == Accumulator::Count {
            let holds = c.condition.as_deref().unwrap_or("true");
            let _ = writeln!(code, "const u64 {low} = peers.count({holds});");
            let _ = writeln!(adds, "{}", then(k, c, &low, "0ull"));
            continue;
        }
        let (merge, above) = match c.accumulator.words() {
            2 => ("Merge::Sum128", words[c.word + 1].as_str()),
            _ => (c.accumulator.merge(), "0ull"),
        };
        let _ = writeln!(code, "u64 {low} = {}, {high} = {above};", words[c.word]);
        let _ = writeln!(takes, "peers.take<{merge}>({low}, {high});");
        let _ = writeln!(adds, "{}", then(k, c, &low, &high));
    }
    if !takes.is_empty() {
        let _ = writeln!(code, "while (peers.pairs()) {{\n{takes}peers.halve();\n}}");
    }
    let _ = writeln!(code, "if (peers.first()) {{\n{adds}}}");
}

/// Statements that add the rows of the lanes `lanes` to the words in global memory at `at`, combined where
/// `place` is the same.
fn combine_at_home(plan: &AccumulatorPlan, (lanes, place): (&str, &str), code: &mut String) {
    combine_by_warps(plan, (lanes, place), code, |_, c, low, high| {
        // What a row adds has the form of the home.
        let merge = match c.accumulator.words() {
            2 => "Merge::Sum128",
            _ => c.accumulator.merge(),
        };
        format!("merge_into<{merge}>(at + {}, {low}, {high});", c.word)
    });
}

/// The value of an accumulator with those words, as C++ that can be added to another.
fn value_of(accumulator: Accumulator, low: &str, high: &str) -> String {
    match accumulator {
        Accumulator::SumF64 => format!("__longlong_as_double(i64({low}))"),
        Accumulator::Sum128 => format!("i128((u128({high}) << 64) | {low})"),
        _ => low.to_owned(),
    }
}

/// Declares what a row alone makes of its group: the words at home, as C++ expressions.
fn row_words(plan: &AccumulatorPlan, code: &mut String) -> Vec<String> {
    let mut words = vec![String::new(); plan.words];
    for (k, c) in plan.contributions.iter().enumerate() {
        let when = |value: String, none: &str| match &c.condition {
            Some(condition) => format!("(({condition}) ? {value} : {none})"),
            None => value,
        };
        let value = &c.value;
        match c.accumulator {
            Accumulator::Count | Accumulator::Sum64 | Accumulator::Max64 => {
                words[c.word] = when(format!("u64({value})"), "0ull");
            }
            Accumulator::SumF64 => {
                words[c.word] = when(format!("u64(__double_as_longlong({value}))"), "0ull");
            }
            Accumulator::SumWidening | Accumulator::Sum128 => {
                let sum = when(format!("i128({value})"), "i128(0)");
                let _ = writeln!(code, "const i128 sum{k} = {sum};");
                words[c.word] = format!("u64(sum{k})");
                words[c.word + 1] = format!("u64(u128(sum{k}) >> 64)");
            }
        }
    }
    words
}

fn add(c: &Contribution, home: &str, update: &str, words: &[String], code: &mut String) {
    if let Some(condition) = &c.condition {
        let _ = write!(code, "if ({condition}) ");
    }
    let _ = writeln!(code, "{home}::{update}({}, {});", words.join(", "), c.value);
}

/// The chains of pages of the launch.
const CHAINS: &str = "\
static_assert(sizeof(PageChainsView) == sizeof(args.chains_view), \"host twin\");
const PageChainsView& chains = *reinterpret_cast<const PageChainsView*>(args.chains_view);
__shared__ ChainState chain_state;
";

/// Stops a block before a unit when the sink holds `limit` rows; the host makes room and resumes.
const STOP_WHEN_FULL: &str = "\
__shared__ u32 full;
__syncthreads();
if (threadIdx.x == 0) full = *reinterpret_cast<volatile unsigned long long*>(args.counters) >= args.limit ? 1u : 0u;
__syncthreads();
if (full != 0) break;
";

/// Leaves behind where the block stands.
const SAVE_PROGRESS: &str = "\
if (threadIdx.x == 0) {
    args.progress[blockIdx.x] = unit;
    if (unit < args.end_unit) args.counters[1] = 1;
}
";
