// Arguments of the kernel radix_gather.
#pragma once

#include "galatea/radix/tuples.cuh"

namespace galatea {

// Consecutive rows of a partition.
struct RadixSlice {
    const u64* rows;  // in any memory
    u32 first;        // position in the output
    u32 count;
};

struct RadixGatherArguments {
    const RadixSlice* slices;
    u64* rows;   // output
    u32 first;   // the first slice
    u32 count;   // slices
    u32 origin;  // the position in the output, as slices count, of the first row of `rows`
    u32 unused;
};

}  // namespace galatea
