// Arguments of the kernel join_probe.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct JoinProbeArguments {
    const void* keys;      // a column of keys, in any device-accessible memory; none is all ones
    const void* payloads;  // a column of values of the same width; only those of matching rows are loaded
    const void* entries;   // the table of join_build
    u64* sum;              // the sum of the payloads of both sides of each match is added to it, then the matches
    u64 rows;
    u64 slots;       // of the table
    u32 slot_bits;   // as for join_build
    u32 word_bytes;  // bytes of a key and of a payload: 8 or 4
};

}  // namespace galatea
