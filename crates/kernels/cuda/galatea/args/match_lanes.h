// Arguments of the kernel match_lanes.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct MatchLanesArguments {
    u64* total;   // added to it: over all threads and matches, how many lanes had this lane's value
    u64 matches;  // by each warp
    u64 values;   // different ones in a warp, a power of two up to 32
};

}  // namespace galatea
