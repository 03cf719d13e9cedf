// Grid scope. One pass over the points: nearest centroid, and sums of its cluster (thesis §5.3: point
// assignment and centroid update are fused, so that an iteration reads each point once), for the kernel of a
// pass and that of a whole fit. Definitions select its parts:
//
// - KMEANS_FEATURES: d
// - KMEANS_THREADS: threads of a block, whole warps
// - KMEANS_POINTS: points per thread, 1, 2 or 4n
// - KMEANS_LABELS: bytes of a written label, 0: none
// - KMEANS_SUMS: 0 none, 1 registers, 2 private, 3 features, 4 shared, 5 global (kmeans/sums.cuh)
// - KMEANS_CLUSTERS: k, for sums in registers
// - KMEANS_INERTIA 1: sums squared distances, computed from differences
// - KMEANS_AHEAD 1: loads the points of the next tile before it computes on the current ones
// - KMEANS_PAIRED 1: compares centroids in pairs (kmeans/nearest.cuh)
// - KMEANS_GIVEN 1: labels are read from where they would be written (second pass of multi-pass execution,
//   thesis §5.3)
// - KMEANS_MATRIX 1: uses matrix units (kmeans/matrix.cuh), with KMEANS_TILES tiles of centroids per group;
//   KMEANS_ONE_GROUP: one group holds all; KMEANS_HELD: in registers; KMEANS_STREAMED: one group at a time in
//   shared memory; sums are 3, 4 or 5, and 3 uses KMEANS_OWNERS lanes that share a point's features, and
//   KMEANS_CHAINS sums of each
//
// A pass consists of three types: the points of a thread, the search of their nearest centroids, and the
// sums. If points have more features than registers hold, features are read when they are needed, by matrix
// units from shared memory; their sums are 0, 3 or 5.
//
//              points                        nearest                     sums by owned features
//     lanes    TilePoints                    Centroids                   FeatureSums
//     matrix   QuadPoints                    MatrixCentroids             QuadFeatureSums
//     of more features than registers hold
//     lanes    WideTile                      WideCentroids               WideFeatureSums
//     matrix   SharedTile                    SharedTileCentroids         WideFeatureSums
//
// Bounds, of n points on M multiprocessors with 4 schedulers: bytes 4 n d / memory rate; instructions
// n / 32 (k (d + 3 + 1/P) + update) / (4 M clock); of the 3 that compare, each runs at half rate.
//
// No centroid is read through the read-only cache: the kernel of a fit changes them between its passes.
#pragma once

#include "galatea/args/kmeans_pass.h"
#include "galatea/kmeans/feature_sums.cuh"
#include "galatea/kmeans/matrix.cuh"
#include "galatea/kmeans/nearest.cuh"
#include "galatea/kmeans/quad_sums.cuh"
#include "galatea/kmeans/shared_tile_matrix.cuh"
#include "galatea/kmeans/wide.cuh"
#include "galatea/kmeans/wide_sums.cuh"

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
#define KMEANS_MATRIX 0
#define KMEANS_TILES 1
#define KMEANS_HELD 1
#define KMEANS_ONE_GROUP 1
#define KMEANS_STREAMED 0
#define KMEANS_OWNERS 4
#define KMEANS_CHAINS 1
#endif

namespace galatea {

constexpr u32 D = KMEANS_FEATURES, P = KMEANS_POINTS;
constexpr bool WIDE = D > MOST_FEATURES;

#if KMEANS_MATRIX
static_assert(KMEANS_LABELS == 0 && KMEANS_INERTIA == 0, "labels and the inertia are exact, and of lanes");
// For many features: warps that share the same points, and points of a block.
constexpr u32 SHARES = P < 4 ? 4 / P : 1, N = KMEANS_THREADS / SHARES;
using Nearest = Choose<WIDE, SharedTileCentroids<D, KMEANS_TILES, N, SHARES, KMEANS_ONE_GROUP, KMEANS_STREAMED>,
                       MatrixCentroids<D, KMEANS_TILES, KMEANS_HELD, KMEANS_ONE_GROUP, KMEANS_STREAMED>>;
using Points = Choose<WIDE, SharedTile<D, N, 1 + KMEANS_AHEAD, SHARES>, QuadPoints<D, P, KMEANS_THREADS>>;
using Lane = Choose<WIDE, SharedTileLane<SHARES>, QuadLane>;
using OwnSums = QuadFeatureSums<D, KMEANS_OWNERS, KMEANS_CHAINS>;
#else
using Nearest = Choose<WIDE, WideCentroids<D>, Centroids<D, KMEANS_PAIRED>>;
using Points = Choose<WIDE, WideTile<D, P>, TilePoints<D, P>>;
using Lane = NoLane;
using OwnSums = FeatureSums<D>;
#endif

#if KMEANS_SUMS == 0
using Sums = NoSums;
#elif KMEANS_SUMS == 1
using Sums = RegisterSums<KMEANS_CLUSTERS, D>;
#elif KMEANS_SUMS == 2
using Sums = PrivateSums<D>;
#elif KMEANS_SUMS == 3
using Sums = Choose<WIDE, WideFeatureSums<D, Points>, OwnSums>;
#elif KMEANS_SUMS == 4
using Sums = SharedSums<D>;
#else
using Sums = GlobalSums<D>;
#endif

// Grid scope: called by all threads of all blocks of a row of the grid, each with its block's dynamic shared
// memory.
GALATEA_INLINE void kmeans_pass_over(const KmeansPassArguments& args, unsigned char* memory) {
    float* const shared = reinterpret_cast<float*>(memory);
    const u32 k = args.clusters;
    double* const partials = args.partials + u64(blockIdx.x % args.slots) * (u64(k) * (D + 1) + 1);
    const Lane lane(shared);
    const Nearest centroids(args, shared + Points::FLOATS, lane);
    Sums sums(SumsPlace{shared + Points::FLOATS + Nearest::floats(k), partials, args.centroids, k, args.copies,
                        Points::SCALED ? 1.0 / args.scale : 1.0});
    __syncthreads();
#if KMEANS_INERTIA
    double inertia = 0.0;
#endif
    TileWalk walk(args.chunks, args.chunk_count, args.tiles_per_chunk);
    bool more = walk.more();
#if KMEANS_AHEAD
    Points next;
    if (more) next.fetch(walk, lane);
#endif
    while (more) {
        for (u32 tiles = 0; tiles < args.flush_tiles && more; ++tiles) {
#if KMEANS_AHEAD
            Points points = next;
#else
            Points points;
            points.fetch(walk, lane);
#endif
            points.place(centroids);
            walk.next();
            more = walk.more();
#if KMEANS_AHEAD
            if (more) next.fetch(walk, lane);
#endif
            u32 label[Points::LABELS];
            if (points.any()) {
#if KMEANS_GIVEN
                load_labels<KMEANS_LABELS>(points.labels, points.first, label, points.live);
#else
                centroids.nearest(points, label);
#endif
#if KMEANS_LABELS && !KMEANS_GIVEN
                if (points.labels != nullptr)
                    store_labels<KMEANS_LABELS>(points.labels, points.first, label, points.live);
#endif
#if KMEANS_INERTIA
                inertia += centroids.distances(points, label);
#endif
            }
            sums.add(points, label);
        }
        sums.merge(partials);
    }
#if KMEANS_INERTIA
    __shared__ Scratch<double> scratch;
    inertia = block_reduce(inertia, Sum{}, scratch);
    if (threadIdx.x == 0) add_partial(partials + u64(k) * (D + 1), inertia);
#endif
}

}  // namespace galatea
