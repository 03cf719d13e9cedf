// Arguments of the kernel random_access.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct RandomAccessArguments {
    u64 table;     // address of the words
    u64 words;     // fewer than 2^32
    u64 accesses;
    u64 seed;      // of the random places
    u64* sum;      // the wrapping sum of the words read is added to it
    u32 width;     // bytes of a word: 4 or 8
    u32 writes;    // 1: words are written; 0: read
};

}  // namespace galatea
