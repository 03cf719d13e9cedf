// Arguments of the kernel link_chase.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct LinkChaseArguments {
    const u32* next;  // of each place, the place that follows it
    u64* out;         // receives the place that was reached, and the nanoseconds of the timed steps
    u64 stride;       // words from one place to the next in memory
    u64 warm_steps;   // before the clock is read
    u64 steps;        // that are timed
};

}  // namespace galatea
