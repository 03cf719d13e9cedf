// Block scope; a grid of one block. Exclusive prefix sums of the counts of blocks and partitions: a block
// writes its tuples to its own positions, without global atomics.
//
// If partitions are contiguous, partition p has the tuples of block 0, then those of block 1, and so on. If
// blocks are (`chunked`, as in the thesis), each block has its own partitions, one after another.
#include "galatea/args/radix_offsets.h"

using namespace galatea;

extern "C" __global__ void __launch_bounds__(1024) radix_offsets(const RadixOffsetsArguments args) {
    __shared__ Scratch<u32> scratch;
    __shared__ u32 scanned;  // sum of all counts of earlier steps
    if (threadIdx.x == 0) scanned = 0;
    __syncthreads();
    if (args.chunked != 0) {
        const u32 all = args.blocks * args.parts;
        for (u32 first = 0; first < all; first += blockDim.x) {
            const u32 at = first + threadIdx.x;
            const u32 count = at < all ? args.counts[at] : 0;
            u32 total;
            const u32 before = scanned + block_exclusive_scan(count, Sum{}, total, scratch);
            if (at < all) args.counts[at] = args.starts[at] = before;
            __syncthreads();
            if (threadIdx.x == 0) scanned += total;
            __syncthreads();
        }
        if (threadIdx.x == 0) args.starts[all] = scanned;
        return;
    }
    constexpr u32 TOGETHER = 16;
    for (u32 first = 0; first < args.parts; first += blockDim.x) {
        const u32 part = first + threadIdx.x;
        const bool live = part < args.parts;
        u32 mine = 0;
        for (u32 block = 0; block < args.blocks && live; block += TOGETHER) {
            u32 counts[TOGETHER];
#pragma unroll
            for (u32 t = 0; t < TOGETHER; ++t) {
                counts[t] = block + t < args.blocks ? args.counts[(block + t) * args.parts + part] : 0;
            }
#pragma unroll
            for (u32 t = 0; t < TOGETHER; ++t) mine += counts[t];
        }
        u32 total;
        u32 at = scanned + block_exclusive_scan(mine, Sum{}, total, scratch);
        if (live) args.starts[part] = at;
        for (u32 block = 0; block < args.blocks && live; block += TOGETHER) {
            u32 counts[TOGETHER];
#pragma unroll
            for (u32 t = 0; t < TOGETHER; ++t) {
                counts[t] = block + t < args.blocks ? args.counts[(block + t) * args.parts + part] : 0;
            }
#pragma unroll
            for (u32 t = 0; t < TOGETHER; ++t) {
                if (block + t < args.blocks) args.counts[(block + t) * args.parts + part] = at;
                at += counts[t];
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) scanned += total;
        __syncthreads();
    }
    if (threadIdx.x == 0) args.starts[args.parts] = scanned;
}
