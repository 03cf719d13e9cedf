// Arguments of the kernel count_bits.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct CountBitsArguments {
    const u32* words;
    u64 count; // words
    u64* ones; // the number of bits that are 1 is added to it
};

}  // namespace galatea
