// Arguments of the kernel link_access.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct LinkAccessArguments {
    u32* words;         // of any memory that the device reaches; 4-byte aligned
    u64* sum;           // receives the wrapping sum of the words read, added
    u64 granules;       // pieces to access, each by one warp
    u64 granule_words;  // words of a piece
    u64 places;         // pieces that the memory has room for
    u64 seed;           // of random order, and of what is written
    u32 random;         // 1: pieces at random places; 0: one after another
    u32 writes;         // 1: words are written; 0: read
};

}  // namespace galatea
