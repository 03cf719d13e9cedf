//! Groups in a global hash table. A table at its limit takes no new group: rows of such groups go into heap pages as partial
//! groups, key words and then the accumulator words the row alone would leave, and the host merges them into a larger table
//! after the launch. Only when the heap is dry too does a block stop, and it remembers which rows of its unit are still to
//! come, for those before them are in their groups already.

use super::super::bind::AccumulatorPlan;
use super::super::generate::SinkFrame;
use super::super::group_key::GroupKey;
use super::{CHAINS, add_to_home, row_words};
use std::fmt::Write;

/// Adds a row to its group, inserting it when new and there is room.
pub fn update(plan: &AccumulatorPlan, key: &GroupKey, code: &mut String) {
    code.push_str("u64* const at = table.find_or_insert(key);\nif (at != nullptr) {\n");
    add_to_home(plan, code);
    code.push_str("} else {\n");
    let own = row_words(plan, code);
    let words = (0..key.key_words()).map(|k| format!("key[{k}]")).chain(own);
    for (w, word) in words.enumerate() {
        let _ = writeln!(code, "stash[stashed][{w}] = {word};");
    }
    code.push_str("stash_row[stashed++] = u8(i);\n}\n");
}

/// After the rows of a step: whole warps append what their lanes have stashed. Lanes on their own would wait for each other
/// when a page is full, which on a GPU they may do for ever.
pub const AFTER_ROWS: &str = "\
            for (u32 k = 0; __any_sync(0xffffffffu, k < stashed); ++k) {
                const bool mine = k < stashed;
                const u32 at = mine ? k : 0;
                if (waiting.append(0xffffffffu, mine, stash[at])) waits += mine ? 1u : 0u;
                else pending |= 1u << stash_row[at];
            }
";

/// The table, the chains, and the rows that a resumed block has to do again.
pub fn frame(
    plan: &AccumulatorPlan,
    key: &GroupKey,
    slot_words: usize,
    collide: bool,
    items: u32,
) -> SinkFrame {
    let key_words = key.key_words();
    let mut prologue = String::from(CHAINS);
    let _ = writeln!(
        prologue,
        "const GroupTable table = {{reinterpret_cast<u64*>(args.groups), args.capacity, args.limit, args.counters, {key_words}u, {slot_words}u, {collide}}};
ChainWriter<{}> waiting(chains, chain_state);
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
if (!stopped) waiting.finish(unit);
waits = __reduce_add_sync(0xffffffffu, waits);
if ((threadIdx.x & 31u) == 0 && waits != 0) atomicAdd(args.counters + 3, u64(waits));
"
        .into(),
        ..SinkFrame::default()
    }
}
