// Arguments of the kernel read_chunks.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct ReadChunksArguments {
    const u64* values;     // chunks one after the other
    const u32* arrivals;   // a word for each chunk, not 0 once it is there; nullptr: all are
    u64 chunk_values;      // values of a chunk
    u64 first, end;        // chunks of the launch
    u64* sums;             // a sum for each chunk
};

}  // namespace galatea
