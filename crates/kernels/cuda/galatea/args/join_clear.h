// Arguments of the kernel join_clear.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct JoinClearArguments {
    u64* words;  // 16-byte aligned
    u64 count;   // an even number of words
    u64 value;   // stored in each
};

}  // namespace galatea
