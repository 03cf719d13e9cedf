// Grid scope. Counts the bits of a bitmap that are 1.
#include "galatea/args/count_bits.h"
#include "galatea/thread.cuh"

using namespace galatea;

extern "C" __global__ void count_bits(const __grid_constant__ CountBitsArguments args) {
    u64 ones = 0;
    for (u64 at = grid_thread(); at < args.count; at += grid_threads()) ones += __popc(args.words[at]);
    for (int delta = 16; delta > 0; delta >>= 1) ones += __shfl_down_sync(0xffffffffu, ones, delta);
    if ((threadIdx.x & 31u) == 0 && ones != 0) atomicAdd(args.ones, ones);
}
