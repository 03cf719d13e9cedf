// Sums chunks, one block per chunk, which waits for it if it may still be in transfer.
#include "galatea/args/read_chunks.h"
#include "galatea/block.cuh"
#include "galatea/link.cuh"

using namespace galatea;

extern "C" __global__ void read_chunks(ReadChunksArguments args) {
    __shared__ Scratch<u64> scratch;
    for (u64 chunk = args.first + blockIdx.x; chunk < args.end; chunk += gridDim.x) {
        if (args.arrivals != nullptr) await_arrival(args.arrivals + chunk);
        const u64* values = args.values + chunk * args.chunk_values;
        u64 sum = 0;
        for (u64 i = threadIdx.x; i < args.chunk_values; i += blockDim.x) sum += __ldg(values + i);
        sum = block_reduce(sum, Sum{}, scratch);
        if (threadIdx.x == 0) args.sums[chunk] = sum;
        __syncthreads();
    }
}
