// Arguments of the kernel link_access.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct LinkAccessArguments {
    u32* words;         // in any memory that the device can address; aligned to unit_words
    u64* sum;           // the wrapping sum of the words read is added to it
    u64 granules;       // pieces to access
    u64 granule_words;  // words of a piece, whole units
    u64 places;         // capacity of the memory in pieces
    u64 seed;           // of the random order and the written values
    u32 unit_words;     // words that a lane moves by one instruction: 1, 2 or 4
    u32 random;         // 1: pieces at random places; 0: one after another
    u32 writes;         // 1: words are written; 0: read
    u32 unused;
};

}  // namespace galatea
