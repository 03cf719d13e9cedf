// Arguments of the kernel sort_pass.
#pragma once

#include "galatea/radix_sort.cuh"

namespace galatea {

struct SortPassArguments {
    const u8* keys;      // 32 or 64 bits each
    const u32* ids;      // of the keys, or null: their positions
    u8* sorted_keys;     // receives the keys, or null
    u32* sorted_ids;     // receives the ids
    const u32* offsets;  // by digit, the keys with a smaller one
    u8* prefixes;        // TilePrefix by tile and digit; zeros
    u32* tiles;          // numbers tiles; zero
    u64 rows;            // keys
    u64 shift;           // lowest bit of the digit
};

}  // namespace galatea
