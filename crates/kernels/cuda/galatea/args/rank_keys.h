// Arguments of the kernel rank_keys.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct RankKeysArguments {
    u8* low;          // by row the word of its key that has the last bit of the place
    u8* high;         // by row the word before it, which has the first bits, or null
    const u32* ranks; // by place the rank
    u64 texts;        // texts
    u64 rows;         // rows
    u32 bit;          // where in the lower word the last bit is
    u32 low_bytes;    // bytes of that word
    u32 high_bytes;   // bytes of the word before it
    u32 descending;   // 1: places are complemented, and ranks count from the last text
};

}  // namespace galatea
