// Block scope: new centroids from the partial sums of a pass. A cluster without points keeps its
// centroid. Additions are in the order of slots, independent of the order of blocks.
#pragma once

#include "galatea/block.cuh"
#include "galatea/kmeans/nearest.cuh"

namespace galatea {

// Sums and centroids of a fit, as args/kmeans_update.h describes them.
struct CentroidUpdate {
    double* partials;
    float* centroids;
    double* shifts;
    u64* masses;
    u32 clusters;
    u32 features;
    u32 slots;
    bool fixed;
    // Shared memory of a block.
    struct Memory {
        Scratch<double> scratch;
        Scratch<u64> counts;
        double mass;
    };

    // Warp scope. Sums a word over all slots, with the result on lane 0, and clears it. Sums are read from
    // L2, which holds the results of the other blocks' atomics.
    GALATEA_INLINE double take(u64 word) const {
        const u64 words = u64(clusters) * (features + 1) + 1;
        double total = 0.0;
        for (u32 slot = lane(); slot < slots; slot += WARP) {
            double* const partial = partials + slot * words + word;
            total += __ldcg(partial);
            *partial = 0.0;
        }
        return warp_reduce(total, Sum{});
    }

    // Block scope: moves a centroid.
    GALATEA_INLINE void move(u32 cluster, Memory& memory) const {
        const u32 k = clusters, d = features;
        if (warp() == 0) {
            const double total = take(u64(k) * d + cluster);
            if (lane() == 0) memory.mass = total;
        }
        __syncthreads();
        const double mass = memory.mass;
        float* const row = centroids + round4(d) + u64(cluster) * d;
        float* const norms = centroids + round4(d) + u64(round4(k)) * d;
        double moved = 0.0, square = 0.0;
        for (u32 f = warp(); f < d; f += warps()) {
            const double total = take(u64(cluster) * d + f);
            if (lane() == 0) {
                const double before = row[f];
                const float after = mass > 0.0 && !fixed ? float(total / mass) : row[f];
                moved += (after - before) * (after - before);
                square += double(after) * after;
                row[f] = after;
            }
        }
        moved = block_reduce(moved, Sum{}, memory.scratch);
        square = block_reduce(square, Sum{}, memory.scratch);
        if (threadIdx.x == 0) {
            norms[cluster] = float(-0.5 * square);
            masses[cluster] = u64(mass);
            shifts[cluster] = mass > 0.0 ? moved : -1.0;
        }
    }

    // Block scope, once all centroids have moved: the sum of their shifts, and the number of clusters without
    // points. Valid on every thread; the same in all blocks of one size.
    GALATEA_INLINE double shift(u64& empty, Memory& memory) const {
        double total = 0.0;
        empty = 0;
        for (u32 c = threadIdx.x; c < clusters; c += blockDim.x) {
            const double moved = __ldcg(shifts + c);
            total += moved > 0.0 ? moved : 0.0;
            empty += moved < 0.0;
        }
        empty = block_reduce(empty, Sum{}, memory.counts);
        return block_reduce(total, Sum{}, memory.scratch);
    }
};

}  // namespace galatea
