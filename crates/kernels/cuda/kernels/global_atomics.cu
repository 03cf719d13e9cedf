// Measures the throughput of 64-bit atomics in device memory: every thread adds to random words.
#include "galatea/args/global_atomics.h"
#include "galatea/block.cuh"

using namespace galatea;

extern "C" __global__ void __launch_bounds__(1024) global_atomics(GlobalAtomicsArguments args) {
    u64 at = (args.seed + grid_thread()) * 0x9e3779b97f4a7c15ull;
    for (u32 i = 0; i < u32(args.updates); ++i) {
        at = at * 6364136223846793005ull + 1442695040888963407ull;
        atomicAdd(args.words + (at >> 33 & (args.count - 1)), 1 + u64(lane() & 1));
    }
}
