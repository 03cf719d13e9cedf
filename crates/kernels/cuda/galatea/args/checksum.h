// Arguments of the kernel checksum.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct ChecksumArguments {
    const u64* values;
    u64 count;
    u64* sum;  // receives, added to what is there, the wrapping sum of value[i] * (2 i + 1): depends on every place
};

}  // namespace galatea
