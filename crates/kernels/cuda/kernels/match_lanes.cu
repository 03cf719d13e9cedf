// Measures the cost of finding the lanes of a warp with the same value: every warp does so repeatedly.
#include "galatea/args/match_lanes.h"
#include "galatea/block.cuh"

using namespace galatea;

extern "C" __global__ void __launch_bounds__(1024) match_lanes(MatchLanesArguments args) {
    const u32 value = lane() % u32(args.values);
    u64 seen = 0;
    for (u32 i = 0; i < u32(args.matches); ++i) seen += __popc(__match_any_sync(first_lanes(WARP), value + i));
    seen = warp_reduce(seen, Sum{});
    if (lane() == 0) atomicAdd(args.total, seen);
}
