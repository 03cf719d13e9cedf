// Arguments of the kernel kmeans_fit.
#pragma once

#include "galatea/args/kmeans_update.h"

namespace galatea {

// Starts of one launch, and words of each. Host twins are in src/kmeans.rs.
constexpr u32 KMEANS_STARTS = 16;
constexpr u32 KMEANS_START_WORDS = 6;

struct KmeansFitArguments {
    const u64* chunks;  // as in kmeans_pass
    // By start (blockIdx.y): addresses of its centroids, partials, shifts, masses and state, and the bits of
    // its scale, as in kmeans_pass and kmeans_update.
    u64 starts[KMEANS_STARTS * KMEANS_START_WORDS];
    double tolerance;     // on the shift; negative: iterate to the limit
    u32 chunk_count;      // these seven as in kmeans_pass
    u32 tiles_per_chunk;
    u32 clusters;
    u32 slots;
    u32 flush_tiles;
    u32 copies;
    u32 key_factor;
    u32 features;    // d
    u32 iterations;  // at most
    u32 unused;
};

}  // namespace galatea
