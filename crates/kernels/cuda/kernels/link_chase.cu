// Grid scope, with one thread. Follows a chain through memory, host or device: each load depends on the
// previous one. Loads bypass the L1 cache, which is virtually addressed and would need no address
// translation. The clock is read in the kernel, since cached translations do not survive a launch.
#include "galatea/args/link_chase.h"
#include "galatea/link.cuh"

using namespace galatea;

namespace {

// The place that is `steps` steps after another.
GALATEA_INLINE u32 follow(const LinkChaseArguments& args, u32 place, u64 steps) {
    for (u64 step = 0; step < steps; ++step) place = __ldcg(args.next + place * args.stride);
    return place;
}

}  // namespace

extern "C" __global__ void link_chase(const LinkChaseArguments args) {
    // Not a valid place: the comparison needs the loaded value, so the clock is read after the load.
    constexpr u32 NONE = ~0u;
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    u32 place = follow(args, 0, args.warm_steps);
    if (place == NONE) return;
    const u64 begun = nanoseconds();
    place = follow(args, place, args.steps);
    if (place == NONE) return;
    args.out[1] = nanoseconds() - begun;
    args.out[0] = place;
}
