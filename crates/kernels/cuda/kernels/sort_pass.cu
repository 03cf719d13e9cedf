// Grid scope. One pass of a stable radix sort in the manner of Onesweep (Adinets and Merrill 2022): a block
// sorts a tile by one digit in shared memory, sums the counts of the tiles before it, and writes runs of
// equal digits.
//
//   keys ── counts published early for later tiles ── ranked in the warp ── shared memory, in order
//        ── tiles before ── memory
//
// Every key is read once and written once. 32-bit keys move with their ids as one 64-bit item.
#include "galatea/args/sort_pass.h"

using namespace galatea;

constexpr u32 ITEMS = GALATEA_SORT_ITEMS;
constexpr u32 THREADS = GALATEA_SORT_THREADS;
constexpr u32 TILE = THREADS * ITEMS;
constexpr u32 TILE_WARPS = THREADS / WARP;
constexpr bool PAIRS = sizeof(SortKey) == 4;
// Blocks per multiprocessor, which limits registers.
constexpr u32 RESIDENT = 2;

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    sort_pass(const __grid_constant__ SortPassArguments args) {
    GALATEA_DYNAMIC_SHARED(tile_memory);
    u64* const staged = reinterpret_cast<u64*>(tile_memory);
    u32* const staged_ids = reinterpret_cast<u32*>(staged + TILE);  // if they are not in pairs
    __shared__ u32 places_of[TILE_WARPS][SORT_BINS];
    __shared__ u32 masks_of[TILE_WARPS][SORT_BINS];
    __shared__ u32 target_of[SORT_BINS];
    __shared__ u32 tile_number;
    __shared__ Scratch<u32> scratch;

    const u32 shift = u32(args.shift);
    const auto digit_of = [&](u64 item) { return u32(item >> shift) & (SORT_BINS - 1); };
    // Tiles are numbered in the order in which blocks begin: a tile waits only for those that have begun
    // before.
    if (threadIdx.x == 0) tile_number = atomicAdd(args.tiles, 1u);
    for (u32 at = threadIdx.x; at < TILE_WARPS * SORT_BINS; at += THREADS) {
        (&places_of[0][0])[at] = 0;
        (&masks_of[0][0])[at] = 0;
    }
    __syncthreads();
    const u32 tile = tile_number;
    const u64 first = u64(tile) * TILE;
    const u32 rows = args.rows - first < TILE ? u32(args.rows - first) : TILE;

    // Each warp has a part of the tile, and loads it in rows of 32 keys: the order of ranks is the order of
    // keys. Missing keys of the last tile count as keys with the greatest digit, after all that exist.
    const u32 strip = warp() * (WARP * ITEMS) + lane();
    u64 items[ITEMS];
    u32 ids[ITEMS];
    const auto load_ids = [&] {
        // One test for all loads, not one before each, so that they are in flight together.
        if (args.ids == nullptr) {
#pragma unroll
            for (u32 i = 0; i < ITEMS; ++i) ids[i] = u32(first) + strip + i * WARP;
        } else {
#pragma unroll
            for (u32 i = 0; i < ITEMS; ++i) {
                const u32 at = strip + i * WARP;
                ids[i] = at < rows ? args.ids[first + at] : 0;
            }
        }
    };
    if (args.pairs != nullptr) {
#pragma unroll
        for (u32 i = 0; i < ITEMS; ++i) {
            const u32 at = strip + i * WARP;
            items[i] = at < rows ? args.pairs[first + at] : ~0ull;
        }
    } else {
        const SortKey* const keys = reinterpret_cast<const SortKey*>(args.keys) + first;
#pragma unroll
        for (u32 i = 0; i < ITEMS; ++i) {
            const u32 at = strip + i * WARP;
            items[i] = at < rows ? keys[at] : SortKey(~SortKey(0));
        }
        if (PAIRS) {
            load_ids();
#pragma unroll
            for (u32 i = 0; i < ITEMS; ++i) items[i] = items[i] << 32 | ids[i];
        }
    }
    u32* const places_of_warp = places_of[warp()];
#pragma unroll
    for (u32 i = 0; i < ITEMS; ++i) atomicAdd(places_of_warp + digit_of(items[i]), 1u);
    if (!PAIRS) {
        load_ids();  // in flight while the block counts
    }
    __syncthreads();

    const bool counts = threadIdx.x < SORT_BINS;
    const u32 digit_of_thread = threadIdx.x;
    u32 in_tile = 0;
    TilePrefix* const prefixes = reinterpret_cast<TilePrefix*>(args.prefixes) + digit_of_thread;
    volatile TilePrefix* const own = prefixes + u64(tile) * SORT_BINS;
    if (counts) {
#pragma unroll
        for (u32 w = 0; w < TILE_WARPS; ++w) {
            const u32 of_warp = places_of[w][digit_of_thread];
            places_of[w][digit_of_thread] = in_tile;
            in_tile += of_warp;
        }
        *own = (tile == 0 ? TILE_INCLUSIVE : TILE_ALONE) | in_tile;
    }
    u32 all;
    const u32 begin = block_exclusive_scan(in_tile, Sum{}, all, scratch);
    if (counts) {
#pragma unroll
        for (u32 w = 0; w < TILE_WARPS; ++w) places_of[w][digit_of_thread] += begin;
    }
    __syncthreads();

    u32* const masks = masks_of[warp()];
#pragma unroll
    for (u32 i = 0; i < ITEMS; ++i) {
        const u32 digit = digit_of(items[i]);
        const u32 same = lanes_with_digit(digit, masks);
        const u32 leader = WARP - 1 - __clz(same);
        u32 place = 0;
        if (lane() == leader) place = atomicAdd(places_of_warp + digit, u32(__popc(same)));
        place = __shfl_sync(0xffffffffu, place, leader) + __popc(same & lanes_before());
        staged[place] = items[i];
        if (!PAIRS) staged_ids[place] = ids[i];
    }
    if (counts) {
        const u32 before = keys_in_tiles_before(prefixes, tile);
        if (tile > 0) *own = TILE_INCLUSIVE | (TilePrefix(before) + in_tile);
        target_of[digit_of_thread] = args.offsets[digit_of_thread] + before - begin;
    }
    __syncthreads();

    u64* const sorted_items = reinterpret_cast<u64*>(args.sorted_items);
#pragma unroll
    for (u32 i = 0; i < ITEMS; ++i) {
        const u32 at = i * THREADS + threadIdx.x;
        const u64 item = staged[at];
        const u32 target = target_of[digit_of(item)] + at;
        if (at >= rows) continue;
        if (sorted_items != nullptr) sorted_items[target] = item;
        if (args.sorted_ids != nullptr) args.sorted_ids[target] = PAIRS ? u32(item) : staged_ids[at];
    }
}
