// Arguments of the kernel join_build.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct JoinBuildArguments {
    const void* keys;      // a column of distinct keys, in any device-accessible memory
    const void* payloads;  // a column of values of the same width
    void* entries;         // key and payload of each slot; aligned to an entry. A key of all ones marks an empty slot
    u64 rows;
    u64 slots;       // perfect hashing: greater than each key; linear probing: a power of two greater than the rows
    u32 slot_bits;   // linear probing: binary logarithm of the number of slots; perfect hashing: 0
    u32 word_bytes;  // bytes of a key and of a payload: 8 or 4
};

}  // namespace galatea
