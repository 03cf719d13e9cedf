// Arguments of the kernel window_starts.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct WindowStartsArguments {
    const u32* sums; // by position: the number of runs that begin before it; one more: all runs
    u32* starts;     // receives the first position of each run, and the number of positions
    u64 rows;        // number of positions
};

}  // namespace galatea
