// Arguments of the kernel sort_gather.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct SortGatherArguments {
    const u8* values;  // aligned to their width
    const u32* ids;    // indices of the wanted values
    u8* gathered;      // receives the values
    u64 rows;          // ids
    u64 width;         // bytes of a value: 1, 4, 8 or 16
};

}  // namespace galatea
