// Arguments of the kernel window_bounds.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

constexpr u32 WINDOW_KEYS = 16;  // maximum number of key words

struct WindowBoundsArguments {
    const u32* ids;               // by position: the row; null: rows are in order
    u32* partitions;              // by position: 1 if a partition begins, else 0
    u32* peers;                   // by position: 1 if a peer group begins, else 0
    u64 rows;                     // number of positions
    const u8* words[WINDOW_KEYS]; // by row, key words: those of PARTITION BY, then those of ORDER BY
    u32 widths[WINDOW_KEYS];      // bytes of each: 4 or 8
    u32 partition_words;          // number of key words of PARTITION BY
    u32 key_words;                // number of key words
};

}  // namespace galatea
