// Arguments of the kernel link_access.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct LinkAccessArguments {
    u32* words;         // of any memory that the device reaches; aligned to unit_words
    u64* sum;           // receives the wrapping sum of the words read, added
    u64 granules;       // pieces to access
    u64 granule_words;  // words of a piece, whole units
    u64 places;         // pieces that the memory has room for
    u64 seed;           // of random order, and of what is written
    u32 unit_words;     // words that a lane moves by one instruction: 1, 2 or 4
    u32 random;         // 1: pieces at random places; 0: one after another
    u32 writes;         // 1: words are written; 0: read
    u32 unused;
};

}  // namespace galatea
