// Arguments of the kernel radix_histogram.
#pragma once

#include "galatea/radix/tuples.cuh"

namespace galatea {

struct RadixHistogramArguments {
    const u64* keys;  // a column of keys, or rows of keys and values; 16-byte aligned, in any memory
    u32* counts;      // by block and partition
    u64 count;        // tuples
    u64 per_block;    // consecutive tuples of a block, an even number
    u32 rows;         // 1: `keys` are rows
    u32 raw;          // 1: partitions are bits of keys, not of their hashes
    u32 shift;        // first bit of the partition's number
    u32 bits;         // bits of it, at most RADIX_MOST_BITS
};

}  // namespace galatea
