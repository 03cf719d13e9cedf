// Arguments of the kernel window_bounds.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

constexpr u32 WINDOW_KEYS = 16;  // key words at most

struct WindowBoundsArguments {
    const u32* ids;               // by place the row; null: rows are in order
    u32* partitions;              // by place 1 where a partition begins, else 0
    u32* peers;                   // by place 1 where peers begin, else 0
    u64 rows;                     // places
    const u8* words[WINDOW_KEYS]; // by row, key words: those of partitions, then those of the order
    u32 widths[WINDOW_KEYS];      // bytes of each: 4 or 8
    u32 partition_words;          // how many are of partitions
    u32 key_words;                // how many there are
};

}  // namespace galatea
