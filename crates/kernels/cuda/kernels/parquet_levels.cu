// Grid scope. Decodes the definition levels of pages, a block per page: one bit per row, and for each word of
// bits the number of values before it. Also finds the first byte and the number of the values.
#include "galatea/args/parquet_decode.h"
#include "galatea/parquet/hybrid.cuh"

using namespace galatea;

namespace {

// Decodes the levels of a page to words. Returns whether they are intact, the same on every thread.
GALATEA_INLINE bool decode_levels(const ParquetPage& page, ParquetPageState& state, PageBytes in, u32* words,
                                  HybridRuns& runs) {
    const u32 decoded = decode_hybrid(runs, in, 1, page.rows, [&](u32 first, u32, bool inside, u32 level, u32 begin) {
        if (level > 1) fail(state, PARQUET_LEVEL, in.at, level, 1);
        const u32 bits = __ballot_sync(0xffffffffu, inside && level == 1);
        if (lane() != 0) return;
        u32& word = words[first / WARP];
        word = first < begin ? word | bits : bits;
    });
    if (decoded == page.rows) return true;
    if (threadIdx.x == 0) fail(state, PARQUET_LEVELS_END, in.at, decoded, page.rows);
    return false;
}

// Counts the values before each word. Returns their number.
GALATEA_INLINE u32 count_values(u32 rows, const u32* words, u32* before, Scratch<u32>& scratch) {
    const u32 count = (rows + WARP - 1) / WARP;
    u32 values = 0;
    for (u32 first = 0; first < count; first += blockDim.x) {
        const u32 word = first + threadIdx.x;
        u32 total;
        const u32 valid = word < count ? u32(__popc(words[word])) : 0;
        const u32 upto = block_exclusive_scan(valid, Sum{}, total, scratch);
        if (word < count) before[word] = values + upto;
        values += total;
    }
    return values;
}

}  // namespace

extern "C" __global__ void parquet_levels(const __grid_constant__ ParquetDecodeArguments args) {
    __shared__ HybridRuns runs;
    __shared__ Scratch<u32> scratch;
    for (u32 task = blockIdx.x; task < args.count; task += gridDim.x) {
        const u32 number = u32(args.tasks[task] >> 32);
        const ParquetPage page = args.pages[number];
        ParquetPageState& state = args.states[number];
        // Only an earlier kernel may have found a violation so far.
        if (page.codec != PARQUET_NO_CODEC && state.failure != PARQUET_INTACT) continue;
        const bool prefixed = page.levels == PARQUET_LENGTH_AND_LEVELS;
        if (page.levels == PARQUET_NO_LEVELS) {
            if (threadIdx.x == 0) {
                state.values = page.rows;
                state.values_at = page.level_bytes;
            }
            continue;
        }
        const u32 start = prefixed ? 4 : 0;
        const u64 length = !prefixed ? page.level_bytes : page.body_bytes >= 4 ? load_word(page.body) : 0;
        if (start > page.body_bytes || length > page.body_bytes - start) {
            if (threadIdx.x == 0) fail(state, PARQUET_LEVEL_BYTES, 0, length, page.body_bytes);
            continue;
        }
        const u32 end = start + u32(length);
        u32* const words = args.validity + page.words;
        if (!decode_levels(page, state, PageBytes{page.body, start, end}, words, runs)) continue;
        const u32 values = count_values(page.rows, words, args.before + page.words, scratch);
        if (threadIdx.x == 0) {
            state.values = values;
            state.values_at = end;
        }
    }
}
