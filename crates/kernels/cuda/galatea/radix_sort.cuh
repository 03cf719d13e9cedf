// Radix sort from the least significant digit on: definitions shared by its kernels. A digit is 8 bits of a
// key.
//
// Compiler definitions select the key: GALATEA_SORT_KEY_BYTES is 4 or 8. GALATEA_SORT_THREADS is the number
// of threads of a pass's block, at least one for each value of a digit, GALATEA_SORT_ITEMS the number of keys
// that each holds. With GALATEA_SORT_WIDE prefixes of tiles take 64 bits, for more than 2^30 keys.
#pragma once

#include "galatea/block.cuh"

#ifndef GALATEA_SORT_KEY_BYTES
#define GALATEA_SORT_KEY_BYTES 8
#endif
#ifndef GALATEA_SORT_THREADS
#define GALATEA_SORT_THREADS 256
#endif
#ifndef GALATEA_SORT_ITEMS
#define GALATEA_SORT_ITEMS 24
#endif

namespace galatea {

#if GALATEA_SORT_KEY_BYTES == 4
using SortKey = u32;
#else
using SortKey = u64;
#endif

constexpr u32 SORT_DIGIT_BITS = 8;
constexpr u32 SORT_BINS = 1u << SORT_DIGIT_BITS;
constexpr u32 SORT_DIGITS = sizeof(SortKey);

GALATEA_INLINE u32 sort_digit(SortKey key, u32 shift) { return u32(key >> shift) & (SORT_BINS - 1); }

// The lanes of a whole warp with the same digit as this one. Each sets its bit in the word of its digit, and
// the highest of them clears the word again: conflicts are few if digits differ; if they are equal, the lanes
// read one word. `masks` are words used only by this warp, all 0 before and after.
GALATEA_INLINE u32 lanes_with_digit(u32 digit, u32* masks) {
    atomicOr(masks + digit, 1u << lane());
    __syncwarp();
    const u32 lanes = masks[digit];
    __syncwarp();
    if (lanes >> lane() == 1u) masks[digit] = 0;
    __syncwarp();
    return lanes;
}

// Digit counts of tiles, for the tiles after them: one word per tile and digit, which its tile stores whole,
// so that no ordering other than that of the word itself is needed. Zero means unknown.
#ifdef GALATEA_SORT_WIDE
using TilePrefix = u64;
#else
using TilePrefix = u32;
#endif
constexpr u32 TILE_PREFIX_BITS = sizeof(TilePrefix) * 8 - 2;
// Flags: count of keys of this tile with that digit; count of keys of this tile and of all before it.
constexpr TilePrefix TILE_ALONE = TilePrefix(1) << TILE_PREFIX_BITS;
constexpr TilePrefix TILE_INCLUSIVE = TilePrefix(2) << TILE_PREFIX_BITS;

// The number of keys with a digit in the tiles before `tile`. `prefixes` is the word of that digit in the
// first tile. Tiles are numbered in the order in which they begin, so those before this one are finished or
// running.
GALATEA_INLINE u32 keys_in_tiles_before(const TilePrefix* prefixes, u32 tile) {
    constexpr u32 AHEAD = sizeof(SortKey) == 4 ? 2 : 1;  // loads in flight
    u32 keys = 0;
    while (tile > 0) {
        TilePrefix words[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            const u64 at = tile > k ? tile - 1 - k : 0;
            words[k] = *static_cast<const volatile TilePrefix*>(prefixes + at * SORT_BINS);
        }
        const u32 from = tile;
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            // The next tile in the order, unless the one before it was not ready, or all have been added.
            if (tile == 0 || tile != from - k || words[k] == 0) continue;
            keys += u32(words[k] & (TILE_ALONE - 1));
            tile = words[k] >= TILE_INCLUSIVE ? 0 : tile - 1;
        }
        if (tile == from) __nanosleep(0);
    }
    return keys;
}

}  // namespace galatea
