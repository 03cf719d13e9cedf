// Arguments of the kernel radix_refine.
#pragma once

#include "galatea/radix/tuples.cuh"

namespace galatea {

struct RadixRefineArguments {
    const u64* rows;         // partitioned rows of a chunk, 16-byte aligned
    const u32* starts;       // positions of the partitions, parts + 1
    u64* output;             // rows
    u32* refined;            // receives positions of the refined partitions, and the end
    u32 raw;                 // 1: partitions are bits of keys, not of their hashes
    u32 shift;               // first bit of a refined partition's number
    u32 bits;                // bits of it, at most RADIX_MOST_BITS
    u32 parts;               // partitions of the first pass
};

}  // namespace galatea
