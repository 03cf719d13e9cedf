// A checksum that depends on every value and its position, but not on the launch geometry.
#include "galatea/args/checksum.h"
#include "galatea/block.cuh"

using namespace galatea;

extern "C" __global__ void checksum(ChecksumArguments args) {
    __shared__ Scratch<u64> scratch;
    u64 sum = 0;
    for (u64 i = grid_thread(); i < args.count; i += grid_threads()) sum += args.values[i] * (2 * i + 1);
    sum = block_reduce(sum, Sum{}, scratch);
    if (threadIdx.x == 0 && sum != 0) atomicAdd(args.sum, sum);
}
