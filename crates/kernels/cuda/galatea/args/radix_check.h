// Arguments of the kernel radix_check.
#pragma once

#include "galatea/radix/tuples.cuh"

namespace galatea {

struct RadixCheckArguments {
    const u64* rows;     // partitioned rows in one array; unused with pages
    const u64* pages;    // addresses of pages of 2^page_bits rows, or null
    const u64* keys;     // if not null: a column of unpartitioned keys, summed in place of rows
    const u64* values;   // a column
    const u32* starts;   // positions of partitions
    u64* sums;           // added to: the sum of hashes of all tuples; number of tuples in wrong partitions
    u64 count;           // tuples
    u32 lists;           // partitions in `starts`, without the end: a multiple of their number
    u32 page_bits;
    u32 raw;
    u32 shift;
    u32 bits;
    u32 unused;
};

}  // namespace galatea
