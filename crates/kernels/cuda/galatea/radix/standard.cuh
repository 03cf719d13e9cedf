// Block scope. Partitioning without buffers: each thread stores its tuples at their positions.
#pragma once

#include "galatea/args/radix_scatter.h"

namespace galatea {

GALATEA_INLINE void radix_standard(const RadixScatterArguments& args, const RadixInput& input,
                                   const RadixOutput& output, u64 begin, unsigned char* shared) {
    using Batch = RadixBatch<2>;
    u32* const next = reinterpret_cast<u32*>(shared);
    const u32 parts = 1u << args.bits;
    for (u32 part = threadIdx.x; part < parts; part += blockDim.x) {
        next[part] = args.offsets[u64(blockIdx.x) * parts + part];
    }
    __syncthreads();
    for (u64 first = begin + warp() * Batch::WARP_TUPLES; first < input.end; first += warps() * Batch::WARP_TUPLES) {
        Batch batch;
        radix_load(batch, input, first);
#pragma unroll
        for (u32 t = 0; t < Batch::EACH; ++t) {
            if ((batch.valid >> t & 1) == 0) continue;
            const u32 part = radix_part(batch.tuple[t].item[0], args.raw, args.shift, args.bits);
            radix_store(output, atomicAdd(next + part, 1u), batch.tuple[t]);
        }
    }
}

}  // namespace galatea
