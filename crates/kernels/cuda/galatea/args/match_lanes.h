// Arguments of the kernel match_lanes.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct MatchLanesArguments {
    u64* total;   // added to it: the number of lanes with this lane's value, over all threads and matches
    u64 matches;  // per warp
    u64 values;   // distinct values in a warp, a power of two up to 32
};

}  // namespace galatea
