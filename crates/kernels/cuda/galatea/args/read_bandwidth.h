// Arguments of the kernel read_bandwidth.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct ReadBandwidthArguments {
    const u64* values;  // 16-byte aligned
    u64 count;          // values; a multiple of 2
    u64* sums;          // one per block: the wrapping sum of the values that the block read
};

}  // namespace galatea
