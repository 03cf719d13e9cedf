// Grid scope. Locates the strings of pages, a warp per page: PLAIN byte arrays, DELTA_LENGTH_BYTE_ARRAY and
// DELTA_BYTE_ARRAY. Strings stay in the page's body, except those of DELTA_BYTE_ARRAY: they are put together
// from prefixes and suffixes in a second phase, when the host has allocated the memory.
#include "galatea/args/parquet_decode.h"
#include "galatea/parquet/delta.cuh"

using namespace galatea;

namespace {

// PLAIN: each string follows its length. All lanes walk over 32 strings; each keeps the string of its number.
GALATEA_INLINE void locate_plain(const ParquetDecodeArguments& args, const ParquetPage& page, ParquetPageState& state) {
    const u32 values = state.values;
    u32 at = state.values_at;
    for (u32 first = 0; first < values; first += WARP) {
        const u32 together = values - first < WARP ? values - first : WARP;
        u32 start = 0;
        u32 length = 0;
        for (u32 string = 0; string < together; ++string) {
            const u32 left = page.body_bytes - at;
            const u32 bytes = left >= 4 ? load_word(page.body + at) : 0;
            if (left < 4 || bytes > left - 4) {
                fail(state, PARQUET_STRING_LENGTH, at, bytes, left);
                return;
            }
            if (lane() == string) {
                start = at + 4;
                length = bytes;
            }
            at += 4 + bytes;
        }
        if (lane() < together) {
            args.starts[page.slot + first + lane()] = page.body + start;
            args.lengths[page.slot + first + lane()] = length;
        }
    }
}

// DELTA_LENGTH_BYTE_ARRAY: all lengths, then all bytes. Moves `in` to the end of the bytes.
GALATEA_INLINE bool locate_lengths(const ParquetDecodeArguments& args, const ParquetPage& page, ParquetPageState& state,
                                   PageBytes in) {
    PageBytes bytes = in;
    const auto nothing = [](u32, u64, bool) {};
    if (!decode_delta<false>(bytes, state.values, state, nothing)) return false;
    u64 before = 0;
    const u64 left = bytes.left();
    bool intact = true;
    const bool decoded = decode_delta<true>(in, state.values, state, [&](u32 value, u64 length, bool inside) {
        // Longer strings than the bytes that are left are recorded below, by their sum.
        const u64 counted = !inside ? 0 : length <= left ? length : left + 1;
        u64 upto;
        const u64 of_lanes_before = warp_exclusive_scan(counted, Sum{}, upto);
        intact = intact && before + upto <= left;
        if (inside && intact) {
            args.starts[page.slot + value] = bytes.bytes + bytes.at + before + of_lanes_before;
            args.lengths[page.slot + value] = u32(length);
        }
        before += __shfl_sync(0xffffffffu, upto, WARP - 1);
    });
    if (!decoded) return false;
    if (before <= left) return true;
    fail(state, PARQUET_STRING_LENGTH, bytes.at, before, left);
    return false;
}

// DELTA_BYTE_ARRAY: lengths of prefixes, then the suffixes as DELTA_LENGTH_BYTE_ARRAY. Counts the bytes.
GALATEA_INLINE void locate_suffixes(const ParquetDecodeArguments& args, const ParquetPage& page, ParquetPageState& state,
                                    PageBytes in) {
    const u32 values = state.values;
    u32* const prefixes = args.indices + page.slot;
    const bool decoded = decode_delta<true>(in, values, state, [&](u32 value, u64 length, bool inside) {
        if (inside) prefixes[value] = length < 0xffffffffu ? u32(length) : 0xffffffffu;
    });
    if (!decoded || !locate_lengths(args, page, state, in)) return;
    __syncwarp();
    const u32* const suffixes = args.lengths + page.slot;
    u64 bytes = 0;
    for (u32 value = lane(); value < values; value += WARP) {
        const u64 before = value == 0 ? 0 : u64(prefixes[value - 1]) + suffixes[value - 1];
        if (prefixes[value] > before) fail(state, PARQUET_PREFIX_LENGTH, in.at, prefixes[value], before);
        bytes += u64(prefixes[value]) + suffixes[value];
    }
    bytes = warp_reduce(bytes, Sum{});
    if (lane() == 0) state.heap_bytes = bytes;
}

// Writes strings of DELTA_BYTE_ARRAY to the heap.
GALATEA_INLINE void join_prefixes(const ParquetDecodeArguments& args, const ParquetPage& page, u32 values) {
    u8* target = args.heap + page.heap;
    const u8* previous = target;
    for (u32 value = 0; value < values; ++value) {
        const u64 slot = page.slot + value;
        const u32 prefix = args.indices[slot];
        const u32 suffix = args.lengths[slot];
        const u8* const source = args.starts[slot];
        __syncwarp();
        for (u32 byte = lane(); byte < prefix; byte += WARP) target[byte] = previous[byte];
        for (u32 byte = lane(); byte < suffix; byte += WARP) target[prefix + byte] = source[byte];
        if (lane() == 0) {
            args.starts[slot] = target;
            args.lengths[slot] = prefix + suffix;
        }
        __syncwarp();
        previous = target;
        target += u64(prefix) + suffix;
    }
}

}  // namespace

extern "C" __global__ void parquet_strings(const __grid_constant__ ParquetDecodeArguments args) {
    for (u64 task = grid_thread() / WARP; task < args.count; task += grid_threads() / WARP) {
        const u32 number = u32(args.tasks[task] >> 32);
        const ParquetPage page = args.pages[number];
        ParquetPageState& state = args.states[number];
        const bool intact = state.failure == PARQUET_INTACT;
        __syncwarp();
        if (!intact || state.values == 0) continue;
        const PageBytes in{page.body, state.values_at, page.body_bytes};
        if (args.phase == 1) {
            join_prefixes(args, page, state.values);
        } else if (page.encoding == PARQUET_PLAIN) {
            locate_plain(args, page, state);
        } else if (page.encoding == PARQUET_DELTA_LENGTH_BYTE_ARRAY) {
            locate_lengths(args, page, state, in);
        } else {
            locate_suffixes(args, page, state, in);
        }
    }
}
