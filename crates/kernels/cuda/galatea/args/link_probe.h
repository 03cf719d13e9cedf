// Arguments of the kernel link_probe.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct LinkProbeArguments {
    const u64* tuples;   // key and payload of each, of any memory that the device reaches; 16-byte aligned
    const u64* entries;  // key and payload of each slot of a hash table, key 0 in one that is empty
    u64* sum;            // receives the sum of the payloads of both sides of each pair, added
    u64 count;           // tuples
    u64 slots;           // a power of two, at least one of them empty
};

}  // namespace galatea
