// Arguments of the kernel rank_keys.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct RankKeysArguments {
    u8* low;          // by row: the word of its key that contains the last bit of the position
    u8* high;         // by row: the preceding word, which contains the first bits, or null
    const u32* ranks; // by position: the rank
    u64 texts;        // strings
    u64 rows;         // rows
    u32 bit;          // position of the last bit in the lower word
    u32 low_bytes;    // bytes of that word
    u32 high_bytes;   // bytes of the word before it
    u32 descending;   // 1: positions are complemented, and ranks count from the last string
};

}  // namespace galatea
