// Arguments of the kernel radix_join.
#pragma once

#include "galatea/radix/tuples.cuh"

namespace galatea {

struct RadixJoinArguments {
    const u64* build;        // rows, partition by partition
    const u64* probe;        // rows
    const u32* build_starts;  // positions of partitions, parts + 1
    const u32* probe_starts;
    u32* next;   // number of the next partition, initially 0
    u64* sums;   // added to: payloads of both sides of all matches; number of matches
    u64 domain;  // perfect: keys are less than it
    u32 parts;
    u32 shift;     // bits of the hash that all tuples of a partition share
    u32 capacity;  // entries of a table
    u32 heads;     // chains of a table, a power of two; 0: perfect hashing by the raw key
    u32 raw;       // 1: hashes are keys
    u32 unused;
};

}  // namespace galatea
