// Grid scope. Checks whether rows are in the order of their keys, by comparing each with the one before it.
#include "galatea/args/rows_in_order.h"
#include "galatea/thread.cuh"

using namespace galatea;

static GALATEA_INLINE u64 key_word(const u8* words, u32 width, u64 row) {
    return width == 4 ? u64(reinterpret_cast<const u32*>(words)[row]) : reinterpret_cast<const u64*>(words)[row];
}

extern "C" __global__ void rows_in_order(const __grid_constant__ RowsInOrderArguments args) {
    bool wrong = false;
    for (u64 row = grid_thread() + 1; row < args.rows && !wrong; row += grid_threads()) {
        for (u32 word = 0; word < args.key_words; ++word) {
            const u64 before = key_word(args.words[word], args.widths[word], row - 1);
            const u64 own = key_word(args.words[word], args.widths[word], row);
            if (before == own) continue;
            wrong = before > own;
            break;
        }
    }
    if (wrong) atomicOr(args.out_of_order, 1u);
}
