// Arguments of the kernel global_atomics.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct GlobalAtomicsArguments {
    u64* words;   // the updated words
    u64 count;    // number of words, a power of two
    u64 updates;  // per thread
    u64 seed;     // of the random words
};

}  // namespace galatea
