// Arguments of the kernel collect_bits.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct CollectBitsArguments {
    const u32* words;
    u32* numbers; // of the bits equal to `wanted`, in any order
    u64* found;   // their number is added to it
    u64 bits;
    u32 wanted; // 0 or 1
    u32 unused;
};

}  // namespace galatea
