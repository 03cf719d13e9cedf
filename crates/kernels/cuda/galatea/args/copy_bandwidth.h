// Arguments of the kernel copy_bandwidth.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct CopyBandwidthArguments {
    const u64* source;  // 16-byte aligned
    u64* target;        // 16-byte aligned
    u64 count;          // values; a multiple of 2
};

}  // namespace galatea
