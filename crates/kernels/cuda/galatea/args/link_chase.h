// Arguments of the kernel link_chase.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct LinkChaseArguments {
    const u32* next;  // of each place, the place that follows it
    u64* last;        // receives the place that was reached
    u64 stride;       // words from one place to the next in memory
    u64 steps;
};

}  // namespace galatea
