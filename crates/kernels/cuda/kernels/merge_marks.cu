// Grid scope. Adds the matches of rows in one slice of the other side of a join to those in earlier slices,
// and chooses the rows that the join returns once in this slice. Each row has one position.
#include "galatea/args/merge_marks.h"
#include "galatea/thread.cuh"

using namespace galatea;

extern "C" __global__ void merge_marks(const __grid_constant__ MergeMarksArguments args) {
    const i64* rows = reinterpret_cast<const i64*>(args.rows);
    // Whole warps iterate, because each writes a word of bits.
    const u64 end = (args.count + 31) / 32 * 32;
    for (u64 at = grid_thread(); at < end; at += grid_threads()) {
        bool chosen = false;
        if (at < args.count) {
            const bool matches = args.lists != 0 ? args.matches[at] != ~0u : (args.matches[at >> 5] >> (at & 31u) & 1u) != 0;
            const u64 row = u64(rows[at]);
            const u32 bit = 1u << (row & 31u);
            const u32 before = row < args.bits ? atomicOr(args.seen + (row >> 5), matches ? bit : 0u) : 0u;
            chosen = (before & bit) == 0 && (matches ? args.matched : args.unmatched) != 0;
        }
        const u32 word = __ballot_sync(0xffffffffu, chosen);
        if ((at & 31u) == 0) args.chosen[at >> 5] = word;
    }
}
