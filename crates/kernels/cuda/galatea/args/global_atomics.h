// Arguments of the kernel global_atomics.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct GlobalAtomicsArguments {
    u64* words;   // added to
    u64 count;    // of words, a power of two
    u64 updates;  // by each thread
    u64 seed;     // of the words drawn
};

}  // namespace galatea
