// Arguments of the kernel window_starts.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct WindowStartsArguments {
    const u32* sums; // by place the runs that begin before it; one more: all
    u32* starts;     // receives the first place of each run, and the number of places
    u64 rows;        // places
};

}  // namespace galatea
