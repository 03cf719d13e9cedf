// Arguments of the kernel fill_pattern.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct FillPatternArguments {
    u64* values;
    u64 count;
    u64 seed;  // value i becomes mix64(seed + i)
};

}  // namespace galatea
