// Grid scope. One pass over the points: nearest centroid, and sums of its cluster (thesis §5.3: point
// assignment and centroid update fused, so that an iteration reads each point once), for the kernel of a pass
// and that of a whole fit. What it is made of is chosen by definitions:
//
// - KMEANS_FEATURES: d
// - KMEANS_THREADS: threads of a block, whole warps
// - KMEANS_POINTS: points a thread, 1, 2 or 4n
// - KMEANS_LABELS: bytes of a label that is written, 0: none
// - KMEANS_SUMS: 0 none, 1 registers, 2 private, 3 features, 4 shared, 5 global (kmeans/sums.cuh)
// - KMEANS_CLUSTERS: k, for sums in registers
// - KMEANS_INERTIA 1: sums squared distances, by differences
// - KMEANS_AHEAD 1: asks for the points of the next tile before it computes on those it has
// - KMEANS_PAIRED 1: compares centroids by twos (kmeans/nearest.cuh)
// - KMEANS_GIVEN 1: labels are read where they would be written (second pass of multi-pass execution, thesis
//   §5.3)
// - KMEANS_WIDE 1: features are too many for registers (kmeans/wide.cuh, by matrix units
//   kmeans/wide_matrix.cuh); sums are 0, 3 or 5
// - KMEANS_MATRIX 1: by matrix units (kmeans/matrix.cuh), KMEANS_TILES tiles of centroids a group, in
//   registers with KMEANS_HELD; sums are 3, 4 or 5, of which 3 has KMEANS_OWNERS lanes that share a point's
//   features
//
// Bounds, of n points on M multiprocessors with 4 schedulers: bytes 4 n d / memory rate; instructions
// n / 32 (k (d + 3 + 1/P) + update) / (4 M clock); of the 3 that compare, each runs at half rate.
//
// No centroid is read through the read-only cache: the kernel of a fit changes them between its passes.
#pragma once

#include "galatea/args/kmeans_pass.h"
#include "galatea/kmeans/feature_sums.cuh"
#include "galatea/kmeans/nearest.cuh"
#include "galatea/kmeans/quad_sums.cuh"
#include "galatea/kmeans/wide.cuh"
#include "galatea/kmeans/wide_matrix.cuh"

#ifndef KMEANS_FEATURES
#define KMEANS_FEATURES 4
#define KMEANS_POINTS 4
#define KMEANS_SUMS 2
#define KMEANS_CLUSTERS 4
#define KMEANS_THREADS 256
#define KMEANS_LABELS 0
#define KMEANS_INERTIA 0
#define KMEANS_AHEAD 1
#define KMEANS_PAIRED 0
#define KMEANS_GIVEN 0
#define KMEANS_WIDE 0
#define KMEANS_MATRIX 0
#define KMEANS_TILES 1
#define KMEANS_HELD 1
#define KMEANS_OWNERS 4
#endif

namespace galatea {

constexpr u32 D = KMEANS_FEATURES, P = KMEANS_POINTS;

#if KMEANS_MATRIX && KMEANS_WIDE
using Nearest = MatrixCentroids<D, KMEANS_TILES, false>;
#if KMEANS_SUMS == 3
using Sums = WideQuadFeatureSums<D>;
#else
using Sums = WideQuadGlobalSums<D>;
#endif

// Grid scope: all threads of all blocks of a row of the grid call, each with its block's dynamic shared
// memory.
GALATEA_INLINE void kmeans_pass_over(const KmeansPassArguments& args, unsigned char* memory) {
    static_assert(P == 4, "a lane loads 4 points of a feature at once");
    float* const shared = reinterpret_cast<float*>(memory);
    const u32 k = args.clusters;
    double* const partials = args.partials + u64(blockIdx.x % args.slots) * (u64(k) * (D + 1) + 1);
    const Nearest centroids(args.centroids, k, args.scale, args.key_shift, shared);
#if KMEANS_SUMS == 3
    Sums sums(shared + Nearest::floats(k), k, args.copies);
#else
    Sums sums{partials, k};
#endif
    __syncthreads();
    TileWalk walk(args.chunk_count, args.tiles_per_chunk);
    while (walk.more()) {
        for (u32 tiles = 0; tiles < args.flush_tiles && walk.more(); ++tiles) {
            const WideQuad points(args.chunks, walk);
            walk.next();
            u32 label[4];
            nearest_wide(centroids, args.centroids, points, label);
            sums.add(points, args.centroids, label);
        }
        sums.merge(partials);
    }
}

#elif KMEANS_MATRIX
#if KMEANS_SUMS == 3
using Sums = QuadFeatureSums<D, KMEANS_OWNERS>;
#elif KMEANS_SUMS == 4
using Sums = QuadSharedSums<D>;
#else
using Sums = QuadGlobalSums<D>;
#endif
using Nearest = MatrixCentroids<D, KMEANS_TILES, KMEANS_HELD>;

// Grid scope: all threads of all blocks of a row of the grid call, each with its block's dynamic shared
// memory.
GALATEA_INLINE void kmeans_pass_over(const KmeansPassArguments& args, unsigned char* memory) {
    float* const shared = reinterpret_cast<float*>(memory);
    const u32 k = args.clusters;
    double* const partials = args.partials + u64(blockIdx.x % args.slots) * (u64(k) * (D + 1) + 1);
    const Nearest centroids(args.centroids, k, args.scale, args.key_shift, shared);
#if KMEANS_SUMS == 5
    Sums sums(partials, k);
#else
    Sums sums(shared + Nearest::floats(k), k, args.copies);
#endif
    __syncthreads();
    TileWalk walk(args.chunk_count, args.tiles_per_chunk);
    bool more = walk.more();
    using Points = QuadPoints<D, P, KMEANS_THREADS>;
    Points next;
#if KMEANS_AHEAD
    if (more) next.fetch(args.chunks, walk);
#endif
    while (more) {
        for (u32 tiles = 0; tiles < args.flush_tiles && more; ++tiles) {
            Points tile;
#if !KMEANS_AHEAD
            next.fetch(args.chunks, walk);
#endif
            tile.shift(next, centroids.origin);
            walk.next();
            more = walk.more();
#if KMEANS_AHEAD
            if (more) next.fetch(args.chunks, walk);
#endif
            u32 label[P];
            centroids.nearest(tile.x, label);
            sums.add(tile, label);
        }
        sums.merge(partials);
    }
}

#elif KMEANS_WIDE == 0
#if KMEANS_SUMS == 0
using Sums = NoSums<D>;
#elif KMEANS_SUMS == 1
using Sums = RegisterSums<KMEANS_CLUSTERS, D>;
#elif KMEANS_SUMS == 2
using Sums = PrivateSums<D>;
#elif KMEANS_SUMS == 3
using Sums = FeatureSums<D>;
#elif KMEANS_SUMS == 4
using Sums = SharedSums<D>;
#else
using Sums = GlobalSums<D>;
#endif

// Grid scope: all threads of all blocks of a row of the grid call, each with its block's dynamic shared
// memory.
GALATEA_INLINE void kmeans_pass_over(const KmeansPassArguments& args, unsigned char* memory) {
    float* const shared = reinterpret_cast<float*>(memory);
    const u32 k = args.clusters;
    const auto centroids = Centroids<D>::share(args.centroids, shared, k);
    double* const partials = args.partials + u64(blockIdx.x % args.slots) * (u64(k) * (D + 1) + 1);
#if KMEANS_SUMS == 5
    Sums sums(partials, k);
#elif KMEANS_SUMS == 0
    Sums sums;
#else
    Sums sums(shared + Centroids<D>::floats(k), k, args.copies);
#endif
    __syncthreads();

#if KMEANS_INERTIA
    double inertia = 0.0;
#endif
    TileWalk walk(args.chunk_count, args.tiles_per_chunk);
    bool more = walk.more();
#if KMEANS_AHEAD
    TilePoints<D, P> next;
    if (more) next.fetch(args.chunks, walk);
#endif
    while (more) {
        for (u32 tiles = 0; tiles < args.flush_tiles && more; ++tiles) {
            TilePoints<D, P> tile;
#if KMEANS_AHEAD
            tile = next;
#else
            tile.fetch(args.chunks, walk);
#endif
            walk.next();
            more = walk.more();
#if KMEANS_AHEAD
            if (more) next.fetch(args.chunks, walk);
#endif
            u32 label[P];
            if (tile.live != 0) {
                tile.shift(centroids.origin);
#if KMEANS_GIVEN
                load_labels<KMEANS_LABELS>(tile.labels, tile.first, label, tile.live);
#else
                centroids.nearest<KMEANS_PAIRED>(tile.x, label);
#endif
#if KMEANS_LABELS && !KMEANS_GIVEN
                if (tile.labels != nullptr) store_labels<KMEANS_LABELS>(tile.labels, tile.first, label, tile.live);
#endif
#if KMEANS_INERTIA
#pragma unroll
                for (u32 p = 0; p < P; ++p)
                    if (p < tile.live) inertia += double(centroids.distance(tile.x, p, label[p]));
#endif
            }
            sums.add(tile.x, label, tile.live);
        }
        sums.merge(partials);
    }
#if KMEANS_INERTIA
    __shared__ Scratch<double> scratch;
    inertia = block_reduce(inertia, Sum{}, scratch);
    if (threadIdx.x == 0) add_partial(partials + u64(k) * (D + 1), inertia);
#endif
}

#else

#if KMEANS_SUMS == 0
using Sums = WideNoSums<D, P>;
#elif KMEANS_SUMS == 3
using Sums = WideFeatureSums<D, P>;
#else
using Sums = WideGlobalSums<D, P>;
#endif

// Grid scope: all threads of all blocks of a row of the grid call, each with its block's dynamic shared
// memory.
GALATEA_INLINE void kmeans_pass_over(const KmeansPassArguments& args, unsigned char* memory) {
    const u32 k = args.clusters;
    const WideCentroids<D> centroids(args.centroids, k);
    double* const partials = args.partials + u64(blockIdx.x % args.slots) * (u64(k) * (D + 1) + 1);
#if KMEANS_SUMS == 0
    Sums sums;
#elif KMEANS_SUMS == 3
    Sums sums(reinterpret_cast<float*>(memory), k, args.copies);
#else
    Sums sums{partials, k};
#endif
    __syncthreads();
#if KMEANS_INERTIA
    double inertia = 0.0;
#endif
    TileWalk walk(args.chunk_count, args.tiles_per_chunk);
    while (walk.more()) {
        for (u32 tiles = 0; tiles < args.flush_tiles && walk.more(); ++tiles) {
            const WideTile<D, P> tile(args.chunks, walk);
            walk.next();
            u32 label[P];
            if (tile.live != 0) {
#if KMEANS_GIVEN
                load_labels<KMEANS_LABELS>(tile.labels, tile.first, label, tile.live);
#else
                centroids.nearest(tile, label);
#endif
#if KMEANS_LABELS && !KMEANS_GIVEN
                if (tile.labels != nullptr) store_labels<KMEANS_LABELS>(tile.labels, tile.first, label, tile.live);
#endif
#if KMEANS_INERTIA
                inertia += centroids.distances(tile, label);
#endif
            }
            sums.add(tile, centroids.origin, label);
        }
        sums.merge(partials);
    }
#if KMEANS_INERTIA
    __shared__ Scratch<double> scratch;
    inertia = block_reduce(inertia, Sum{}, scratch);
    if (threadIdx.x == 0) add_partial(partials + u64(k) * (D + 1), inertia);
#endif
}

#endif

}  // namespace galatea
