//! Groups in a global hash table. If the table is not too large, it is fully sized. Otherwise it starts small
//! and accepts no new group at its limit. Rows of new groups then overflow into heap pages as partial groups:
//! key words followed by the accumulator words of the single row. After the launch, another kernel
//! (`hash_merge`) merges them into a larger table. A block stops only if the heap is exhausted as well. It
//! records the unfinished rows of its morsel, since the previous ones are already in their groups.

use super::statements::{CHAINS, add_to_global, combine_in_global, compare_strings, row_words};
use super::{Geometry, Sink};
use crate::accumulators::AccumulatorPlan;
use crate::group_key::GroupKey;
use galatea_expression::code::{Code, line};

/// Sufficient number of slots for `groups` groups.
pub fn slots_for(groups: u64) -> u64 {
    groups
        .saturating_mul(2)
        .checked_next_power_of_two()
        .unwrap_or(1 << 63)
        .max(2)
}

/// Collects groups in a hash table.
#[derive(Debug)]
pub(crate) struct HashSink {
    pub(crate) accumulators: AccumulatorPlan,
    pub(crate) key: GroupKey,
    /// Whether rows of new groups may overflow into heap pages.
    pub(crate) overflows: bool,
    pub(crate) warp_aggregated: bool,
    /// Whether every hash is forced to zero.
    pub(crate) collide: bool,
}

impl Sink for HashSink {
    fn headers(&self) -> &'static [&'static str] {
        if self.overflows { &["page_chain"] } else { &[] }
    }

    fn steps(&self) -> u32 {
        if self.overflows { 1 } else { 4 }
    }

    fn is_warp_aggregated(&self) -> bool {
        self.warp_aggregated
    }

    fn prologue(&self, geometry: Geometry, code: &mut Code) {
        let key_words = self.key.key_words();
        line!(
            code,
            "const GroupTable table = {{reinterpret_cast<u64*>(args.groups), args.capacity, {}, args.counters, {key_words}u, {}u, {}}};
u32 inserted = 0;",
            if self.overflows { "args.limit" } else { "~0ull" },
            self.key.slot_key_words() + self.accumulators.words,
            self.collide
        );
        if self.overflows {
            code.lines(CHAINS);
            line!(
                code,
                "ChainWriter<{0}> overflow(chains, chain_state);
const u64 thread = u64(blockIdx.x) * blockDim.x + threadIdx.x;
u32 overflowed = 0, unfinished = args.resume != 0 ? args.progress[thread] : 0xffffffffu;
bool stopped = false;
u64 rows_over[{1}][{0}];
u8 row_over[{1}];",
                key_words + self.accumulators.words,
                geometry.items
            );
        }
    }

    fn resumed_morsel(&self) -> Option<&'static str> {
        self.overflows
            .then_some("u32(overflow.first_morsel(args.first_morsel + blockIdx.x))")
    }

    fn begin_morsel(&self, code: &mut Code) {
        if self.overflows {
            code.lines("u32 pending = 0, over = 0;");
        }
    }

    fn begin_step(&self, code: &mut Code) {
        if self.overflows {
            code.lines("live &= unfinished;\nunfinished = 0xffffffffu;");
        }
    }

    fn row(&self, code: &mut Code) {
        code.lines("u64* const at = table.find_or_insert(key, inserted);");
        let lanes = match (self.warp_aggregated, self.overflows) {
            (true, true) => {
                code.lines("const u32 found_slot = __ballot_sync(active, at != nullptr);");
                "found_slot"
            }
            _ => "active",
        };
        let mut update = Code::default();
        if self.warp_aggregated {
            combine_in_global(&self.accumulators, (lanes, "u64(at)"), &mut update);
        } else {
            add_to_global(&self.accumulators, &mut update);
        }
        compare_strings(&self.accumulators, "at", &mut update);
        if !self.overflows {
            return code.nest(0, &update);
        }
        code.lines("if (at != nullptr) {");
        code.nest(1, &update);
        code.lines("} else {");
        let mut store = Code::default();
        let own = row_words(&self.accumulators, &mut store);
        let words = (0..self.key.key_words()).map(|k| format!("key[{k}]")).chain(own);
        for (w, word) in words.enumerate() {
            line!(store, "rows_over[over][{w}] = {word};");
        }
        store.lines("row_over[over++] = u8(i);");
        code.nest(1, &store);
        code.lines("}");
    }

    /// Appends the overflow rows of all lanes by whole warps. Single lanes would wait for each other when a
    /// page is full, which may deadlock on a GPU.
    fn after_rows(&self, code: &mut Code) {
        if self.overflows {
            code.lines(
                "\
for (u32 k = 0; __any_sync(0xffffffffu, k < over); ++k) {
    const bool mine = k < over;
    const u32 at = mine ? k : 0;
    if (overflow.append(0xffffffffu, mine, rows_over[at])) overflowed += mine ? 1u : 0u;
    else pending |= 1u << row_over[at];
}
",
            );
        }
    }

    fn end_morsel(&self, code: &mut Code) {
        if self.overflows {
            code.lines(
                "\
if (!overflow.keep_morsel(morsel, pending != 0)) {
    args.progress[thread] = pending;
    passed -= __popc(pending);
    if (threadIdx.x == 0) args.counters[1] = 1;
    stopped = true;
    break;
}
",
            );
        }
    }

    fn epilogue(&self, _: Geometry, code: &mut Code) {
        code.lines("table.count(inserted);");
        if self.overflows {
            code.lines(
                "\
if (!stopped) overflow.finish(morsel);
overflowed = __reduce_add_sync(0xffffffffu, overflowed);
if ((threadIdx.x & 31u) == 0 && overflowed != 0) atomicAdd(args.counters + 3, u64(overflowed));
",
            );
        }
    }
}
