// Grid scope. New centroids from the partials of all passes of an iteration: one block per cluster; the block
// that ends last sums the distances that the centroids moved and determines whether the fit is done.
#include "galatea/args/kmeans_update.h"
#include "galatea/kmeans/update.cuh"

using namespace galatea;

extern "C" __global__ void kmeans_update(const __grid_constant__ KmeansUpdateArguments args) {
    __shared__ CentroidUpdate::Memory memory;
    __shared__ bool last;
    if (args.state->done != 0) return;
    const CentroidUpdate update{args.partials, args.centroids, args.shifts, args.masses,
                                args.clusters, args.features,  args.slots,  args.fixed != 0};
    update.move(blockIdx.x, memory);
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(&args.state->ticket, u64(1)) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;

    __threadfence();
    u64 empty;
    const double shift = update.shift(empty, memory);
    double inertia = 0.0;
    if (warp() == 0) inertia = update.take(u64(args.clusters) * (args.features + 1));
    if (threadIdx.x == 0) {
        args.state->iterations += 1;
        args.state->shift = shift;
        args.state->inertia = inertia;
        args.state->empty = empty;
        args.state->ticket = 0;
        if (shift <= args.tolerance) args.state->done = 1;
    }
}
