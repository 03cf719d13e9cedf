// Grid scope. Writes tuples to their partitions, by the algorithm that GALATEA_RADIX selects: 0 standard,
// 1 linear, 2 shared, 3 hierarchical. The first positions of each block are known (radix_offsets), so blocks
// do not communicate.
#include "galatea/args/radix_scatter.h"
#include "galatea/radix/buffered.cuh"
#include "galatea/radix/linear.cuh"
#include "galatea/radix/standard.cuh"

#ifndef GALATEA_RADIX
#define GALATEA_RADIX 2
#endif
#ifndef GALATEA_RADIX_PAIRS
#define GALATEA_RADIX_PAIRS 2
#endif
#ifndef GALATEA_RADIX_THREADS
#define GALATEA_RADIX_THREADS 1024
#endif
#ifndef GALATEA_RADIX_RESIDENT
#define GALATEA_RADIX_RESIDENT 1
#endif

using namespace galatea;

extern "C" __global__ void __launch_bounds__(GALATEA_RADIX_THREADS, GALATEA_RADIX_RESIDENT)
    radix_scatter(const __grid_constant__ RadixScatterArguments args) {
    GALATEA_DYNAMIC_SHARED(shared);
    const u64 begin = u64(blockIdx.x) * args.per_block;
    const u64 end = begin + args.per_block < args.count ? begin + args.per_block : args.count;
    const RadixInput input = {args.keys, args.values, end, args.numbered, args.number};
    const RadixOutput output = {args.rows, args.pages, args.page_bits};
#if GALATEA_RADIX == 0
    radix_standard(args, input, output, begin, shared);
#elif GALATEA_RADIX == 1
    __shared__ Scratch<u32> scratch;
    const u32 parts = 1u << args.bits;
    const RadixTile tile(shared, warps() * RadixBatch<GALATEA_RADIX_PAIRS>::WARP_TUPLES, parts);
    for (u32 part = threadIdx.x; part < parts; part += blockDim.x) {
        tile.counts[part] = 0;
        tile.next[part] = args.offsets[u64(blockIdx.x) * parts + part];
    }
    __syncthreads();
    radix_tiles<GALATEA_RADIX_PAIRS>(tile, args.raw, args.shift, args.bits, input, output, begin, scratch);
#elif GALATEA_RADIX == 2
    radix_buffered<false, GALATEA_RADIX_PAIRS>(args, input, output, begin, shared);
#else
    radix_buffered<true, GALATEA_RADIX_PAIRS>(args, input, output, begin, shared);
#endif
}
