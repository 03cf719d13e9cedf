//! Statements that several sinks share.

use crate::accumulators::{AccumulatorPlan, Contribution, Extreme};
use crate::aggregate::Accumulator;
use galatea_expression::Signal;
use galatea_expression::code::{Code, line};

/// Adds a row to registers of the thread; `word` is the address of partial word `w`.
pub(super) fn add_to_registers(plan: &AccumulatorPlan, word: impl Fn(usize) -> String, code: &mut Code) {
    for c in &plan.contributions {
        let words: Vec<String> = (c.partial..c.partial + c.accumulator.partial_words())
            .map(&word)
            .collect();
        add(c, "PrivateWords", c.accumulator.update_partial(), &words, code);
    }
}

/// Merges the registers of a warp's lanes into those of lane 0. `word` returns the name of partial word `w`,
/// and `none` is a register that replaces missing high words. `then` writes the statements that follow for an
/// accumulator, given its low and high words.
pub(super) fn merge_registers(
    plan: &AccumulatorPlan,
    word: impl Fn(usize) -> String,
    code: &mut Code,
    then: impl Fn(&Contribution, &str, &str, &mut Code),
) {
    for c in &plan.contributions {
        let low = word(c.partial);
        let high = match c.accumulator.partial_words() {
            2 => word(c.partial + 1),
            _ => "none".into(),
        };
        line!(code, "warp_merge<{}>({low}, {high});", c.accumulator.merge());
        then(c, &low, &high, code);
    }
}

/// Adds a row to the words in global memory at `at`.
pub fn add_to_global(plan: &AccumulatorPlan, code: &mut Code) {
    for c in &plan.contributions {
        let words: Vec<String> = (c.word..c.word + c.accumulator.words())
            .map(|w| format!("at + {w}"))
            .collect();
        add(c, "GlobalWords", c.accumulator.update_global(), &words, code);
    }
}

/// The address of a group's words in global memory, given its number.
pub(super) fn words_of_group(plan: &AccumulatorPlan, group: &str) -> String {
    format!(
        "reinterpret_cast<u64*>(args.groups) + u64({group}) * {}u",
        plan.words
    )
}

/// Compares a row's strings with the minimum and maximum strings of its group in global memory at `at`.
pub(super) fn compare_strings(plan: &AccumulatorPlan, at: &str, code: &mut Code) {
    let full = Signal::StringsFull.number();
    for extreme in &plan.extremes {
        if let Some(condition) = &extreme.condition {
            code.part(format_args!("if ({condition}) "));
        }
        let Extreme {
            least,
            text,
            table,
            word,
            ..
        } = extreme;
        line!(
            code,
            "keep_extreme<{least}>({at} + {word}, args.tables[{table}], {text}, args.error, {full}u);"
        );
    }
}

/// Combines the rows of the lanes in `lanes` that update the same `place`. The first of these lanes runs the
/// statement that `then` returns for accumulator `k` and its low and high words.
pub(super) fn combine_lanes(
    plan: &AccumulatorPlan,
    (lanes, place): (&str, &str),
    code: &mut Code,
    then: impl Fn(usize, &Contribution, &str, &str) -> String,
) {
    let words = row_words(plan, code);
    line!(code, "WarpPeers peers{{{lanes}, {place}}};");
    let (mut takes, mut adds) = (Code::default(), Code::default());
    for (k, c) in plan.contributions.iter().enumerate() {
        let (low, high) = (format!("low{k}"), format!("high{k}"));
        if c.accumulator == Accumulator::Count {
            let holds = c.condition.as_deref().unwrap_or("true");
            line!(code, "const u64 {low} = peers.count({holds});");
            line!(adds, "{}", then(k, c, &low, "0ull"));
            continue;
        }
        let (merge, above) = match c.accumulator.words() {
            2 => ("Merge::Sum128", words[c.word + 1].as_str()),
            _ => (c.accumulator.merge(), "0ull"),
        };
        line!(code, "u64 {low} = {}, {high} = {above};", words[c.word]);
        line!(takes, "peers.take<{merge}>({low}, {high});");
        line!(adds, "{}", then(k, c, &low, &high));
    }
    if takes.length() > 0 {
        code.lines("while (peers.pairs()) {");
        code.nest(1, &takes);
        code.lines("    peers.halve();\n}");
    }
    code.lines("if (peers.first()) {");
    code.nest(1, &adds);
    code.lines("}");
}

/// Adds the rows of the lanes in `lanes` to the words in global memory at `at`. Rows with the same `place`
/// are combined first.
pub(super) fn combine_in_global(plan: &AccumulatorPlan, (lanes, place): (&str, &str), code: &mut Code) {
    if plan.contributions.is_empty() {
        return;
    }
    combine_lanes(plan, (lanes, place), code, |_, c, low, high| {
        // A row's contribution has the form of the words in global memory.
        let merge = match c.accumulator.words() {
            2 => "Merge::Sum128",
            _ => c.accumulator.merge(),
        };
        format!("merge_into<{merge}>(at + {}, {low}, {high});", c.word)
    });
}

/// The value of an accumulator with these words, as a C++ expression that can be added to another.
pub(super) fn value_of(accumulator: Accumulator, low: &str, high: &str) -> String {
    match accumulator {
        Accumulator::SumF64 => format!("__longlong_as_double(i64({low}))"),
        Accumulator::Sum128 => format!("i128((u128({high}) << 64) | {low})"),
        _ => low.to_owned(),
    }
}

/// Declares the words in global memory that a group of only this row would have, as C++ expressions.
pub(super) fn row_words(plan: &AccumulatorPlan, code: &mut Code) -> Vec<String> {
    let mut words = vec![String::new(); plan.words];
    for (k, c) in plan.contributions.iter().enumerate() {
        let when = |value: String, none: &str| match &c.condition {
            Some(condition) => format!("(({condition}) ? {value} : {none})"),
            None => value,
        };
        let value = &c.value;
        match c.accumulator {
            Accumulator::Count
            | Accumulator::Sum64
            | Accumulator::Max64
            | Accumulator::Or64
            | Accumulator::Xor64 => {
                words[c.word] = when(format!("u64({value})"), "0ull");
            }
            Accumulator::SumF64 => {
                words[c.word] = when(format!("u64(__double_as_longlong({value}))"), "0ull");
            }
            Accumulator::SumWidening | Accumulator::Sum128 => {
                let sum = when(format!("i128({value})"), "i128(0)");
                line!(code, "const i128 sum{k} = {sum};");
                words[c.word] = format!("u64(sum{k})");
                words[c.word + 1] = format!("u64(u128(sum{k}) >> 64)");
            }
        }
    }
    let full = Signal::StringsFull.number();
    for Extreme {
        condition,
        text,
        table,
        word,
        ..
    } in &plan.extremes
    {
        let place = format!("intern(args.tables[{table}], {text}, args.error, {full}u)");
        words[*word] = match condition {
            Some(condition) => format!("(({condition}) ? {place} : 0ull)"),
            None => place,
        };
    }
    words
}

fn add(c: &Contribution, words_type: &str, update: &str, words: &[String], code: &mut Code) {
    if let Some(condition) = &c.condition {
        code.part(format_args!("if ({condition}) "));
    }
    line!(code, "{words_type}::{update}({}, {});", words.join(", "), c.value);
}

/// Declares the page chains of the launch.
pub(super) const CHAINS: &str = "\
static_assert(sizeof(PageChainsView) == sizeof(args.chains_view), \"host twin\");
const PageChainsView& chains = *reinterpret_cast<const PageChainsView*>(args.chains_view);
__shared__ ChainState chain_state;
";

/// Reserves space for the warp's live rows of a step by one atomic. `at` is the first position of this lane,
/// and `held` the number of rows in the sink, including these. Warps do not wait for each other, and a warp
/// without a live row does nothing.
pub(super) const RESERVE: &str = "\
u64 at = 0, held = 0;
if (__any_sync(0xffffffffu, live != 0)) {
    const u32 mine = __popc(live);
    const u32 lane = threadIdx.x & 31u;
    u32 upto = mine;
#pragma unroll
    for (int delta = 1; delta < 32; delta <<= 1) {
        const u32 other = __shfl_up_sync(0xffffffffu, upto, delta);
        if (lane >= delta) upto += other;
    }
    if (lane == 31) held = atomicAdd(args.counters, (unsigned long long)upto) + upto;
    held = __shfl_sync(0xffffffffu, held, 31);
    at = held - __shfl_sync(0xffffffffu, upto, 31) + upto - mine;
}
";
