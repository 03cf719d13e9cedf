// Arguments of the kernel string_ranks.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct StringRanksArguments {
    const u64* places; // positions of strings, in sort order
    u32* ranks;        // by position: the rank
    u64 count;         // strings
};

}  // namespace galatea
