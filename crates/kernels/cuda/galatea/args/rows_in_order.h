// Arguments of the kernel rows_in_order.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

constexpr u32 ORDER_WORDS = 16;  // key words at most

struct RowsInOrderArguments {
    const u8* words[ORDER_WORDS];  // by row, key words, the most significant first
    u32 widths[ORDER_WORDS];       // bytes of each: 4 or 8
    u64 rows;
    u32* out_of_order;  // 1 is written where a row comes after one with a greater key
    u32 key_words;      // how many there are
    u32 padding;
};

}  // namespace galatea
