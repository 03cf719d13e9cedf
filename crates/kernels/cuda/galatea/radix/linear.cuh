// Block scope. Partitioning by tiles: a block sorts a tile by partition in shared memory, and writes the runs
// of it. Adjacent threads write adjacent tuples, but runs begin and end anywhere in a line.
#pragma once

#include "galatea/args/radix_scatter.h"

namespace galatea {

template <u32 PAIRS>
GALATEA_INLINE void radix_linear(const RadixScatterArguments& args, const RadixInput& input,
                                 const RadixOutput& output, u64 begin, unsigned char* shared) {
    using Batch = RadixBatch<PAIRS>;
    __shared__ Scratch<u32> scratch;
    const u32 parts = 1u << args.bits;
    const u32 tile_tuples = warps() * Batch::WARP_TUPLES;
    u64* const tile = reinterpret_cast<u64*>(shared);
    u32* const counts = reinterpret_cast<u32*>(tile + 2 * tile_tuples);
    u32* const firsts = counts + parts;  // position in the tile
    u32* const next = firsts + parts;    // position in the output of the next tuple
    u32* const shifts = next + parts;    // position in the output minus position in the tile
    for (u32 part = threadIdx.x; part < parts; part += blockDim.x) {
        counts[part] = 0;
        next[part] = args.offsets[u64(blockIdx.x) * parts + part];
    }
    __syncthreads();
    // Consecutive partitions of a thread, for the prefix sum.
    const u32 each = (parts + blockDim.x - 1) / blockDim.x;
    const u32 from = threadIdx.x * each < parts ? threadIdx.x * each : parts;
    const u32 to = from + each < parts ? from + each : parts;
    for (u64 first = begin; first < input.end; first += tile_tuples) {
        Batch batch;
        u32 taken[Batch::EACH];
        radix_load(batch, input, first + warp() * Batch::WARP_TUPLES);
#pragma unroll
        for (u32 t = 0; t < Batch::EACH; ++t) {
            if ((batch.valid >> t & 1) == 0) continue;
            const u32 part = radix_part(batch.tuple[t].item[0], args.raw, args.shift, args.bits);
            taken[t] = part << 16 | atomicAdd(counts + part, 1u);
        }
        __syncthreads();
        u32 mine = 0;
        for (u32 part = from; part < to; ++part) mine += counts[part];
        u32 total;
        u32 before = block_exclusive_scan(mine, Sum{}, total, scratch);
        for (u32 part = from; part < to; ++part) {
            const u32 count = counts[part];
            counts[part] = 0;
            firsts[part] = before;
            shifts[part] = next[part] - before;
            next[part] += count;
            before += count;
        }
        __syncthreads();
#pragma unroll
        for (u32 t = 0; t < Batch::EACH; ++t) {
            if ((batch.valid >> t & 1) == 0) continue;
            store_vector(tile, firsts[taken[t] >> 16] + (taken[t] & 0xffffu), batch.tuple[t]);
        }
        __syncthreads();
        for (u32 at = threadIdx.x; at < total; at += blockDim.x) {
            const Tuple tuple = load_vector<2>(tile, at);
            const u32 part = radix_part(tuple.item[0], args.raw, args.shift, args.bits);
            radix_store(output, shifts[part] + at, tuple);
        }
        __syncthreads();
    }
}

}  // namespace galatea
