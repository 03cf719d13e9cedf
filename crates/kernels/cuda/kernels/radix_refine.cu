// Grid scope. The second pass over a chunk of tuples: each block partitions partitions of the first pass,
// which it reads twice, to the same positions. All partitions of both passes are in order.
#include "galatea/args/radix_refine.h"
#include "galatea/radix/linear.cuh"

#ifndef GALATEA_RADIX_PAIRS
#define GALATEA_RADIX_PAIRS 2
#endif

using namespace galatea;

extern "C" __global__ void __launch_bounds__(512, 2) radix_refine(const __grid_constant__ RadixRefineArguments args) {
    GALATEA_DYNAMIC_SHARED(shared);
    __shared__ Scratch<u32> scratch;
    using Batch = RadixBatch<GALATEA_RADIX_PAIRS>;
    const u32 parts = 1u << args.bits;
    const RadixTile tile(shared, warps() * Batch::WARP_TUPLES, parts);
    for (u32 number = blockIdx.x; number < args.parts; number += gridDim.x) {
        const u32 begin = args.starts[number];
        const u32 end = args.starts[number + 1];
        const RadixInput input = {args.rows, nullptr, end, 0, 0};
        const RadixOutput output = {args.output, nullptr, 0};
        for (u32 part = threadIdx.x; part < parts; part += blockDim.x) tile.counts[part] = 0;
        __syncthreads();
        for (u64 first = begin + warp() * Batch::WARP_TUPLES; first < end; first += warps() * Batch::WARP_TUPLES) {
            Batch batch;
            radix_load(batch, input, first);
#pragma unroll
            for (u32 t = 0; t < Batch::EACH; ++t) {
                if ((batch.valid >> t & 1) == 0) continue;
                atomicAdd(tile.counts + radix_part(batch.tuple[t].item[0], args.raw, args.shift, args.bits), 1u);
            }
        }
        __syncthreads();
        u32 from;
        u32 to;
        radix_own_parts(parts, from, to);
        u32 mine = 0;
        for (u32 part = from; part < to; ++part) mine += tile.counts[part];
        u32 total;
        u32 at = begin + block_exclusive_scan(mine, Sum{}, total, scratch);
        for (u32 part = from; part < to; ++part) {
            args.refined[number * parts + part] = tile.next[part] = at;
            at += tile.counts[part];
            tile.counts[part] = 0;
        }
        if (number + 1 == args.parts && threadIdx.x == 0) args.refined[args.parts * parts] = end;
        __syncthreads();
        radix_tiles<GALATEA_RADIX_PAIRS>(tile, args.raw, args.shift, args.bits, input, output, begin, scratch);
    }
}
