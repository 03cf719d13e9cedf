// Arguments of the kernel link_chase.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct LinkChaseArguments {
    const u32* next;  // for each place, the place that follows it
    u64* out;         // receives the last place, and the nanoseconds of the timed steps
    u64 stride;       // words between neighbouring places in memory
    u64 warm_steps;   // steps before timing starts
    u64 steps;        // timed steps
};

}  // namespace galatea
