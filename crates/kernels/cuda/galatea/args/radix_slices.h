// Arguments of the kernel radix_slices.
#pragma once

#include "galatea/radix/tuples.cuh"

namespace galatea {

struct RadixSlicesArguments {
    const u64* build_pages;   // address of each page of rows, in any memory
    const u64* probe_pages;
    const u32* build_starts;  // by page: positions of partitions in it, parts + 1
    const u32* probe_starts;
    u32* next;   // number of the next partition, initially 0
    u64* sums;   // added to: payloads of both sides of all matches; number of matches
    u64* index;  // or null; receives the probe side's value of each match, and keeps other elements
    u32* indexed;  // with `index`: elements in use, initially 0; an element for each probed tuple
    u64 domain;  // perfect: keys are less than it
    u32 builds;  // pages of the build side, at most the threads of a block
    u32 probes;  // pages of the probe side, likewise
    u32 parts;
    u32 shift;     // bits of the hash that all tuples of a partition share
    u32 capacity;  // entries of a table
    u32 heads;     // chains of a table, a power of two; 0: perfect hashing by the raw key
    u32 raw;       // 1: hashes are keys
    u32 unused;
};

}  // namespace galatea
