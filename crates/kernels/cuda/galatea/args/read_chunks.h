// Arguments of the kernel read_chunks.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct ReadChunksArguments {
    const u64* values;     // consecutive chunks
    const u32* arrivals;   // a word for each chunk, not 0 once it is resident; nullptr: all are resident
    u64 chunk_values;      // values of a chunk
    u64 first, end;        // chunks of the launch
    u64* sums;             // a sum for each chunk
};

}  // namespace galatea
