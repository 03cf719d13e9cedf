// Arguments of the kernel link_probe.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct LinkProbeArguments {
    const u64* tuples;   // key and payload of each, in any device-accessible memory; 16-byte aligned
    const u64* entries;  // key and payload of each slot of a hash table; key 0 marks an empty slot
    u64* sum;            // the sum of the payloads of both sides of each pair is added to it
    u64 count;           // tuples
    u64 slots;           // a power of two, at least one of them empty
};

}  // namespace galatea
