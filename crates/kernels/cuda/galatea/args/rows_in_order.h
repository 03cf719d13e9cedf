// Arguments of the kernel rows_in_order.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

constexpr u32 ORDER_WORDS = 16;  // maximum number of key words

struct RowsInOrderArguments {
    const u8* words[ORDER_WORDS];  // by row, key words, the most significant first
    u32 widths[ORDER_WORDS];       // bytes of each: 4 or 8
    u64 rows;
    u32* out_of_order;  // set to 1 if a row follows one with a greater key
    u32 key_words;      // number of key words
    u32 padding;
};

}  // namespace galatea
