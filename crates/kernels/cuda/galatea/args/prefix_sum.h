// Arguments of the kernel prefix_sum.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct PrefixSumArguments {
    const u32* counts; // null: the values in `wide` are summed
    u32* narrow;       // the sums as 32 bits, may be `counts`; or null
    u64* wide;         // the sums as 64 or 128 bits, or null
    u64* totals;       // by block: the sum of its counts, as wide as the sums
    u64 count;         // number of counts; the output has one sum more
    u64 per_block;     // consecutive counts per block
    u32 phase;         // 0: totals, 1: sums
    u32 width;         // bytes of a sum: 8 or 16
};

}  // namespace galatea
