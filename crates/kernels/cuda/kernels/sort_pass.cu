// Grid scope. One pass of a stable radix sort in the manner of Onesweep (Adinets and Merrill 2022): a block
// sorts a tile by one digit in shared memory, adds up the counts of the tiles before it, and writes runs of
// equal digits.
//
//   keys ── rank in the warp (a vote per bit) ── warps of the tile ── tiles before ── shared memory, in order
//   ── memory
//
// Every key is read once and written once. A block is SORT_BINS threads: one a digit where digits are
// counted.
#include "galatea/args/sort_pass.h"

using namespace galatea;

constexpr u32 ITEMS = GALATEA_SORT_ITEMS;
constexpr u32 TILE = SORT_BINS * ITEMS;
constexpr u32 TILE_WARPS = SORT_BINS / WARP;

extern "C" __global__ void __launch_bounds__(SORT_BINS) sort_pass(const __grid_constant__ SortPassArguments args) {
    __shared__ SortKey staged[TILE];
    __shared__ u32 places_of[TILE_WARPS][SORT_BINS];
    __shared__ u32 target_of[SORT_BINS];
    __shared__ u32 tile_number;
    __shared__ Scratch<u32> scratch;

    const u32 digit_of_thread = threadIdx.x;
    const u32 shift = u32(args.shift);
    // Tiles are numbered as blocks begin: a tile waits only for those that have begun before.
    if (threadIdx.x == 0) tile_number = atomicAdd(args.tiles, 1u);
#pragma unroll
    for (u32 w = 0; w < TILE_WARPS; ++w) places_of[w][threadIdx.x] = 0;
    __syncthreads();
    const u32 tile = tile_number;
    const u64 first = u64(tile) * TILE;
    const u32 rows = args.rows - first < TILE ? u32(args.rows - first) : TILE;

    // Each warp has a part of the tile, and loads it row by row of 32 keys: the order of ranks is the order
    // of keys. What is missing in the last tile counts as keys with the greatest digit, which are behind all
    // that exist.
    const u32 strip = warp() * (WARP * ITEMS) + lane();
    const SortKey* const from = reinterpret_cast<const SortKey*>(args.keys) + first;
    SortKey keys[ITEMS];
#pragma unroll
    for (u32 i = 0; i < ITEMS; ++i) {
        const u32 at = strip + i * WARP;
        keys[i] = at < rows ? from[at] : SortKey(~SortKey(0));
    }

    u32* const places_of_warp = places_of[warp()];
    u32 places[ITEMS];
#pragma unroll
    for (u32 i = 0; i < ITEMS; ++i) {
        const u32 digit = sort_digit(keys[i], shift);
        const u32 same = lanes_with_digit(digit);
        const u32 before = places_of_warp[digit];
        __syncwarp();
        if ((same & lanes_before()) == 0) places_of_warp[digit] = before + __popc(same);
        __syncwarp();
        places[i] = before + __popc(same & lanes_before());
    }
    __syncthreads();

    u32 in_tile = 0;
#pragma unroll
    for (u32 w = 0; w < TILE_WARPS; ++w) {
        const u32 of_warp = places_of[w][digit_of_thread];
        places_of[w][digit_of_thread] = in_tile;
        in_tile += of_warp;
    }
    TilePrefix* const prefixes = reinterpret_cast<TilePrefix*>(args.prefixes) + digit_of_thread;
    volatile TilePrefix* const own = prefixes + u64(tile) * SORT_BINS;
    *own = (tile == 0 ? TILE_INCLUSIVE : TILE_ALONE) | in_tile;
    u32 all;
    const u32 begin = block_exclusive_scan(in_tile, Sum{}, all, scratch);
#pragma unroll
    for (u32 w = 0; w < TILE_WARPS; ++w) places_of[w][digit_of_thread] += begin;
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ITEMS; ++i) {
        places[i] += places_of_warp[sort_digit(keys[i], shift)];
        staged[places[i]] = keys[i];
    }
    // Ids are on their way while the block looks back.
    u32 ids[ITEMS];
#pragma unroll
    for (u32 i = 0; i < ITEMS; ++i) {
        const u32 at = strip + i * WARP;
        ids[i] = args.ids == nullptr ? u32(first) + at : at < rows ? args.ids[first + at] : 0;
    }

    const u32 before = keys_in_tiles_before(prefixes, tile);
    if (tile > 0) *own = TILE_INCLUSIVE | (TilePrefix(before) + in_tile);
    target_of[digit_of_thread] = args.offsets[digit_of_thread] + before - begin;
    __syncthreads();

    u32 targets[ITEMS];
    SortKey* const sorted_keys = reinterpret_cast<SortKey*>(args.sorted_keys);
#pragma unroll
    for (u32 i = 0; i < ITEMS; ++i) {
        const u32 at = i * SORT_BINS + threadIdx.x;
        const SortKey key = staged[at];
        targets[i] = target_of[sort_digit(key, shift)] + at;
        if (sorted_keys != nullptr && at < rows) sorted_keys[targets[i]] = key;
    }
    __syncthreads();
    u32* const staged_ids = reinterpret_cast<u32*>(staged);
#pragma unroll
    for (u32 i = 0; i < ITEMS; ++i) staged_ids[places[i]] = ids[i];
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ITEMS; ++i) {
        const u32 at = i * SORT_BINS + threadIdx.x;
        if (at < rows) args.sorted_ids[targets[i]] = staged_ids[at];
    }
}
