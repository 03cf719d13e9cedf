// Arguments of the kernel sort_pass.
#pragma once

#include "galatea/radix_sort.cuh"

namespace galatea {

// 32-bit keys move in pairs with their ids, the key above the id. 64-bit keys and ids move separately.
struct SortPassArguments {
    const u8* keys;         // 32 or 64 bits each, or null: pairs
    const u32* ids;         // of the keys, or null: their positions
    const u64* pairs;       // or null: keys and ids
    u8* sorted_items;       // receives pairs, or keys of 64 bits, or null
    u32* sorted_ids;        // receives the ids, or null: they are in pairs
    const u32* offsets;     // by digit value, the number of keys with a smaller one
    u8* prefixes;           // TilePrefix by tile and digit; zeros
    u32* tiles;             // counter that numbers tiles; zero
    u64 rows;               // keys
    u64 shift;              // lowest bit of the digit, in the pair for keys of 32 bits
};

}  // namespace galatea
