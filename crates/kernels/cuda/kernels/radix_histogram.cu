// Grid scope. Counts the tuples of each partition, for each block's range of consecutive tuples.
#include "galatea/args/radix_histogram.h"

using namespace galatea;

extern "C" __global__ void __launch_bounds__(1024) radix_histogram(const RadixHistogramArguments args) {
    __shared__ u32 counts[1u << RADIX_MOST_BITS];
    const u32 parts = 1u << args.bits;
    for (u32 part = threadIdx.x; part < parts; part += blockDim.x) counts[part] = 0;
    __syncthreads();
    const auto take = [&](u64 key) { atomicAdd(counts + radix_part(key, args.raw, args.shift, args.bits), 1u); };
    const u64 begin = u64(blockIdx.x) * args.per_block;
    const u64 end = begin + args.per_block < args.count ? begin + args.per_block : args.count;
    constexpr u32 TOGETHER = 4;
    // Rows are 16 bytes; a thread loads two keys of a column at once.
    const u64 last = args.rows != 0 ? end : end / 2;
    for (u64 first = (args.rows != 0 ? begin : begin / 2) + threadIdx.x; first < last;
         first += TOGETHER * blockDim.x) {
        Vector<u64, 2> pairs[TOGETHER];
#pragma unroll
        for (u32 t = 0; t < TOGETHER; ++t) {
            const u64 at = first + t * blockDim.x;
            if (at < last) pairs[t] = load_vector<2>(args.keys, at);
        }
#pragma unroll
        for (u32 t = 0; t < TOGETHER; ++t) {
            if (first + t * blockDim.x >= last) continue;
            take(pairs[t].item[0]);
            if (args.rows == 0) take(pairs[t].item[1]);
        }
    }
    if (args.rows == 0 && begin < end && end % 2 == 1 && threadIdx.x == 0) take(args.keys[end - 1]);
    __syncthreads();
    for (u32 part = threadIdx.x; part < parts; part += blockDim.x) {
        args.counts[u64(blockIdx.x) * parts + part] = counts[part];
    }
}
