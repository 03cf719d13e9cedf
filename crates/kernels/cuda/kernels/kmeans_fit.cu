// Grid scope. Several iterations over points that are all in device memory, in one launch: a pass
// (kmeans/pass.cuh), a barrier of all blocks, new centroids, a barrier. A row of the grid is a start with its
// own centroids, barriers and end, so that restarts over few points share the device.
//
// It is launched cooperatively: all blocks are resident at once.
#include "galatea/args/kmeans_fit.h"
#include "galatea/grid.cuh"
#include "galatea/kmeans/pass.cuh"
#include "galatea/kmeans/update.cuh"

using namespace galatea;

extern "C" __global__ void __launch_bounds__(KMEANS_THREADS)
    kmeans_fit(const __grid_constant__ KmeansFitArguments args) {
    GALATEA_DYNAMIC_SHARED(memory);
    __shared__ CentroidUpdate::Memory sums;
    const u64* const words = args.starts + blockIdx.y * KMEANS_START_WORDS;
    KmeansState* const state = reinterpret_cast<KmeansState*>(words[4]);
    // The same for all blocks of a start: its state changes only after barriers.
    if (__ldcg(&state->done) != 0) return;
    const CentroidUpdate update{reinterpret_cast<double*>(words[1]),
                                reinterpret_cast<float*>(words[0]),
                                reinterpret_cast<double*>(words[2]),
                                reinterpret_cast<u64*>(words[3]),
                                args.clusters,
                                args.features,
                                args.slots,
                                false};
    const KmeansPassArguments pass{args.chunks,      update.centroids,     update.partials,
                                   nullptr,          args.chunk_count,     args.tiles_per_chunk,
                                   args.clusters,    args.slots,           args.flush_tiles,
                                   args.copies,      __uint_as_float(u32(words[5])), args.key_factor};
#pragma unroll 1
    for (u32 iteration = 0; iteration < args.iterations; ++iteration) {
        kmeans_pass_over(pass, memory);
        blocks_meet(&state->arrived, gridDim.x);
        for (u32 cluster = blockIdx.x; cluster < args.clusters; cluster += gridDim.x) update.move(cluster, sums);
#if KMEANS_INERTIA
        // Before the barrier, since the next pass adds to the word.
        if (blockIdx.x == 0 && warp() == 0) {
            const double inertia = update.take(u64(args.clusters) * (args.features + 1));
            if (lane() == 0) state->inertia = inertia;
        }
#endif
        blocks_meet(&state->arrived, gridDim.x);
        u64 empty;
        const double shift = update.shift(empty, sums);
        const bool done = shift <= args.tolerance;
        if (blockIdx.x == 0 && threadIdx.x == 0) {
            state->iterations += 1;
            state->shift = shift;
            state->empty = empty;
            state->done = done;
        }
        if (done) return;
    }
}
