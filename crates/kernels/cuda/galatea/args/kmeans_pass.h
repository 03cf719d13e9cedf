// Arguments of the kernel kmeans_pass.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct KmeansPassArguments {
    const u64* chunks;        // four words a chunk: see kmeans/points.cuh
    const float* centroids;   // in the layout of kmeans/nearest.cuh
    double* partials;         // [slot]{feature sums [k][d], masses [k], inertia}; added to
    const u64* state;         // of the fit: the pass does nothing once it is done; null: always runs
    u32 chunk_count;          // chunks
    u32 tiles_per_chunk;      // no chunk has more tiles of blockDim.x * P points
    u32 clusters;             // k
    u32 slots;                // blocks b with equal b % slots share partials
    u32 flush_tiles;          // tiles after which a block adds its sums to the partials
    u32 copies;               // copies of the data shared by the threads of a block, a power of two
    float scale;              // of points and centroids, for the matrix units (kmeans/matrix.cuh)
    u32 key_factor;           // 64, for the matrix units
};

}  // namespace galatea
