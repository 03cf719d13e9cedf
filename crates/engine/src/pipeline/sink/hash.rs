//! Groups in a global hash table. Where it is not too large it is fully sized. Else
//! it starts small, and at its limit takes no new group: rows of such groups go into heap pages as partial
//! groups, key words and then the accumulator words the row alone would leave, and the host merges them into
//! a larger table after the launch. Only when the heap is dry too does a block stop, and it remembers which
//! rows of its unit are still to come, for those before them are in their groups already.

use super::super::bind::AccumulatorPlan;
use super::super::generate::{BoundPipeline, SinkFrame};
use super::super::group_key::GroupKey;
use super::{CHAINS, add_to_home, combine_at_home, row_words};
use std::fmt::Write;

/// Slots that are enough for so many groups.
pub fn slots_for(groups: u64) -> u64 {
    groups
        .saturating_mul(2)
        .checked_next_power_of_two()
        .unwrap_or(1 << 63)
        .max(2)
}

/// Adds a row to its group, inserting it when new and there is room.
pub fn update(plan: &AccumulatorPlan, key: &GroupKey, waits: bool, warps: bool, code: &mut String) {
    code.push_str("u64* const at = table.find_or_insert(key, inserted);\n");
    let lanes = match (warps, waits) {
        (true, true) => {
            code.push_str("const u32 placed = __ballot_sync(together, at != nullptr);\n");
            "placed"
        }
        _ => "together",
    };
    if waits {
        code.push_str("if (at != nullptr) {\n");
    }
    if warps {
        combine_at_home(plan, (lanes, "u64(at)"), code);
    } else {
        add_to_home(plan, code);
    }
    if !waits {
        return;
    }
    code.push_str("} else {\n");
    let own = row_words(plan, code);
    let words = (0..key.key_words()).map(|k| format!("key[{k}]")).chain(own);
    for (w, word) in words.enumerate() {
        let _ = writeln!(code, "stash[stashed][{w}] = {word};");
    }
    code.push_str("stash_row[stashed++] = u8(i);\n}\n");
}

/// After the rows of a step: whole warps append what their lanes have stashed. Lanes on their own would wait
/// for each other when a page is full, which on a GPU they may do for ever.
pub const AFTER_ROWS: &str = "\
            for (u32 k = 0; __any_sync(0xffffffffu, k < stashed); ++k) {
                const bool mine = k < stashed;
                const u32 at = mine ? k : 0;
                if (waiting.append(0xffffffffu, mine, stash[at])) waits += mine ? 1u : 0u;
                else pending |= 1u << stash_row[at];
            }
";

/// The table; where rows may wait the chains, and the rows that a resumed block has to do again.
pub fn frame(plan: &AccumulatorPlan, key: &GroupKey, bound: &BoundPipeline, waits: bool) -> SinkFrame {
    let (key_words, items) = (key.key_words(), bound.items);
    let mut prologue = String::new();
    let _ = writeln!(
        prologue,
        "const GroupTable table = {{reinterpret_cast<u64*>(args.groups), args.capacity, {}, args.counters, {key_words}u, {}u, {}}};
u32 inserted = 0;",
        if waits { "args.limit" } else { "~0ull" },
        bound.slot_words(),
        bound.collide
    );
    if !waits {
        return SinkFrame {
            prologue,
            epilogue: "table.count(inserted);\n".into(),
            ..SinkFrame::default()
        };
    }
    prologue.push_str(CHAINS);
    let _ = writeln!(
        prologue,
        "ChainWriter<{}> waiting(chains, chain_state);
const u64 thread = u64(blockIdx.x) * blockDim.x + threadIdx.x;
u32 waits = 0, redo = args.resume != 0 ? args.progress[thread] : 0xffffffffu;
bool stopped = false;
u64 stash[{items}][{0}];
u8 stash_row[{items}];",
        key_words + plan.words
    );
    SinkFrame {
        prologue,
        headers: &["page_chain"],
        first_unit: Some("u32 unit = u32(waiting.first_tile(args.first_unit + blockIdx.x));"),
        unit: "u32 pending = 0, stashed = 0;\n".into(),
        live: "live &= redo;\nredo = 0xffffffffu;\n",
        unit_end: "\
if (!waiting.keep_tile(unit, pending != 0)) {
    args.progress[thread] = pending;
    passed -= __popc(pending);
    if (threadIdx.x == 0) args.counters[1] = 1;
    stopped = true;
    break;
}
",
        epilogue: "\
table.count(inserted);
if (!stopped) waiting.finish(unit);
waits = __reduce_add_sync(0xffffffffu, waits);
if ((threadIdx.x & 31u) == 0 && waits != 0) atomicAdd(args.counters + 3, u64(waits));
"
        .into(),
        ..SinkFrame::default()
    }
}
