// Arguments of the kernel checksum.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct ChecksumArguments {
    const u64* values;
    u64 count;
    u64* sum;  // added to it: the wrapping sum of value[i] * (2 i + 1), which depends on every position
};

}  // namespace galatea
