// Grid scope. Counts the points of each cluster from their labels: the thesis' Mass Sum (§5.2.2), a histogram
// with labels as buckets.
//
//   KMEANS_MASSES  0 global atomic      one histogram, to which all threads add
//                  1 partitioned global one a block, in device memory
//                  2 partitioned local  one a block, in shared memory, by native integer atomics   4 k bytes
//                  3 partitioned private one a thread, in shared memory, without atomics           4 k t bytes
//   KMEANS_LABELS  bytes of a label
//
// A thread reads 16 bytes of labels at a time. Words of a private histogram are [bucket][thread]: each in its
// lane's own bank.
#include "galatea/args/kmeans_masses.h"
#include "galatea/kmeans/points.cuh"

#ifndef KMEANS_MASSES
#define KMEANS_MASSES 2
#define KMEANS_LABELS 1
#endif

using namespace galatea;

extern "C" __global__ void kmeans_masses(const __grid_constant__ KmeansMassesArguments args) {
    using T = Label<KMEANS_LABELS>::Type;
    constexpr u32 AT_ONCE = 16 / KMEANS_LABELS;
    GALATEA_DYNAMIC_SHARED(memory);
    const u32 k = u32(args.clusters);
    u32* const words = KMEANS_MASSES == 1 ? args.partials + u64(blockIdx.x) * k : reinterpret_cast<u32*>(memory);
    constexpr bool PRIVATE = KMEANS_MASSES == 3, GLOBAL = KMEANS_MASSES == 0;
    const u32 copies = PRIVATE ? blockDim.x : 1;
    if (KMEANS_MASSES >= 2)
        for (u32 i = threadIdx.x; i < k * copies; i += blockDim.x) words[i] = 0;
    __syncthreads();
    const auto count = [&](u32 label) {
        if constexpr (GLOBAL)
            atomicAdd(args.masses + label, u64(1));
        else if constexpr (PRIVATE)
            words[label * blockDim.x + threadIdx.x] += 1;
        else
            atomicAdd(words + label, 1u);
    };
    const u64 whole = args.count / AT_ONCE, threads = u64(gridDim.x) * blockDim.x;
    const u64 thread = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    const Vector<T, AT_ONCE>* const vectors = reinterpret_cast<const Vector<T, AT_ONCE>*>(args.labels);
    for (u64 i = thread; i < whole; i += threads) {
        const Vector<T, AT_ONCE> some = vectors[i];
#pragma unroll
        for (u32 each = 0; each < AT_ONCE; ++each) count(some.item[each]);
    }
    const u64 last = whole * AT_ONCE + thread;
    if (last < args.count) count(reinterpret_cast<const T*>(args.labels)[last]);
    if constexpr (!GLOBAL) {
        __syncthreads();
        // One warp per bucket if a bucket has many words, one thread if it has one.
        if constexpr (PRIVATE) {
            for (u32 c = warp(); c < k; c += warps()) {
                u32 total = 0;
                for (u32 t = lane(); t < blockDim.x; t += WARP) total += words[c * blockDim.x + t];
                total = warp_reduce(total, Sum{});
                if (lane() == 0 && total != 0) atomicAdd(args.masses + c, u64(total));
            }
        } else {
            for (u32 c = threadIdx.x; c < k; c += blockDim.x) {
                const u32 total = words[c];
                if (total != 0) atomicAdd(args.masses + c, u64(total));
                if constexpr (KMEANS_MASSES == 1) words[c] = 0;
            }
        }
    }
}
