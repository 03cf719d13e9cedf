// Arguments of the kernel radix_scatter.
#pragma once

#include "galatea/radix/tuples.cuh"

namespace galatea {

// Tuples of a second-level buffer of the hierarchical algorithm: 8 KiB.
constexpr u32 SECOND_TUPLES = 512;

struct RadixScatterArguments {
    const u64* keys;     // a column of keys, or rows; 16-byte aligned, in any memory
    const u64* values;   // a column, or null: `keys` are rows, or tuples are numbered
    const u32* offsets;  // by block and partition: position of the block's first tuple of the partition
    u64* rows;           // output in one array, 128-byte aligned; unused with pages
    const u64* pages;    // output in pages of 2^page_bits tuples: their addresses; or null
    u64* second;         // hierarchical: SECOND_TUPLES rows for each block and partition
    u64 count;           // tuples
    u64 per_block;       // consecutive tuples of a block, an even number
    u64 number;          // number of the first tuple, if they are numbered
    u32 page_bits;
    u32 raw;    // 1: partitions are bits of keys, not of their hashes
    u32 shift;  // first bit of the partition's number
    u32 bits;   // bits of it, at most RADIX_MOST_BITS
    u32 buffer;  // shared and hierarchical: tuples of a buffer, a multiple of 8 or 4, 2 or 1
    u32 numbered;  // 1: the value of a tuple is its number, and `keys` is a column
};

}  // namespace galatea
