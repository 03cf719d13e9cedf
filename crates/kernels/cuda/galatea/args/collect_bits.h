// Arguments of the kernel collect_bits.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct CollectBitsArguments {
    const u32* words;
    u32* numbers; // of the bits that are `wanted`, in any order
    u64* found;   // how many there are is added to it
    u64 bits;
    u32 wanted; // 0 or 1
    u32 unused;
};

}  // namespace galatea
