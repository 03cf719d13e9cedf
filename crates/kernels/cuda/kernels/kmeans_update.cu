// Grid scope. New centroids from the partials of all passes of an iteration: a block a cluster; the block
// that ends last sums up how far the centroids moved and says whether the fit is done. Order of additions is
// that of slots, whatever the order of blocks. A cluster without points keeps its centroid (KM-2).
#include "galatea/args/kmeans_update.h"
#include "galatea/block.cuh"
#include "galatea/kmeans/nearest.cuh"

using namespace galatea;

extern "C" __global__ void kmeans_update(const __grid_constant__ KmeansUpdateArguments args) {
    __shared__ Scratch<double> scratch;
    __shared__ bool last;
    if (args.state->done != 0) return;
    const u32 k = args.clusters, d = args.features, cluster = blockIdx.x;
    const u64 words = u64(k) * (d + 1) + 1;
    const auto take = [&](u64 word) {
        double total = 0.0;
        for (u32 slot = lane(); slot < args.slots; slot += WARP) {
            double& partial = args.partials[slot * words + word];
            total += partial;
            partial = 0.0;
        }
        return warp_reduce(total, Sum{});
    };

    __shared__ double mass;
    if (warp() == 0) {
        const double total = take(u64(k) * d + cluster);
        if (lane() == 0) mass = total;
    }
    __syncthreads();
    float* const row = args.centroids + round4(d) + u64(cluster) * d;
    float* const norms = args.centroids + round4(d) + u64(round4(k)) * d;
    double moved = 0.0, square = 0.0;
    for (u32 f = warp(); f < d; f += warps()) {
        const double total = take(u64(cluster) * d + f);
        if (lane() == 0) {
            const double before = row[f];
            const float after = mass > 0.0 && args.fixed == 0 ? float(total / mass) : row[f];
            moved += (after - before) * (after - before);
            square += double(after) * after;
            row[f] = after;
        }
    }
    moved = block_reduce(moved, Sum{}, scratch);
    square = block_reduce(square, Sum{}, scratch);
    if (threadIdx.x == 0) {
        norms[cluster] = float(-0.5 * square);
        args.masses[cluster] = u64(mass);
        args.shifts[cluster] = mass > 0.0 ? moved : -1.0;
        __threadfence();
        last = atomicAdd(&args.state->ticket, u64(1)) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;

    __threadfence();
    double shift = 0.0;
    u64 empty = 0;
    for (u32 c = threadIdx.x; c < k; c += blockDim.x) {
        const double moved = __ldcg(args.shifts + c);
        shift += moved > 0.0 ? moved : 0.0;
        empty += moved < 0.0;
    }
    shift = block_reduce(shift, Sum{}, scratch);
    __shared__ Scratch<u64> counts;
    empty = block_reduce(empty, Sum{}, counts);
    double inertia = 0.0;
    if (warp() == 0) inertia = take(u64(k) * (d + 1));
    if (threadIdx.x == 0) {
        args.state->iterations += 1;
        args.state->shift = shift;
        args.state->inertia = inertia;
        args.state->empty = empty;
        args.state->ticket = 0;
        if (shift <= args.tolerance) args.state->done = 1;
    }
}
