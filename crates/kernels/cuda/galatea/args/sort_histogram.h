// Arguments of the kernel sort_histogram.
#pragma once

#include "galatea/radix_sort.cuh"

namespace galatea {

struct SortHistogramArguments {
    const u8* keys;  // 32 or 64 bits each, aligned to 16 bytes
    u64 rows;        // keys
    u32* counts;     // [digit of the key][value of the digit], the least significant digit first: added to
};

}  // namespace galatea
