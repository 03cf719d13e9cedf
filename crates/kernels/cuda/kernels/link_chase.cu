// Grid scope, of one thread. Follows a chain through memory, wherever that is: each load waits for the last.
#include "galatea/args/link_chase.h"

using namespace galatea;

extern "C" __global__ void link_chase(const LinkChaseArguments args) {
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    u32 place = 0;
    for (u64 step = 0; step < args.steps; ++step) place = args.next[place * args.stride];
    *args.last = place;
}
