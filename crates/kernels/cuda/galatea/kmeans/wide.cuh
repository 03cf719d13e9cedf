// Block scope: passes over points with more features than a thread's registers hold.
//
// Scores: a thread has P points and 8 centroids at a time, 8 P scores in registers, and iterates over the
// features: a vector load of a feature of its points and 8 broadcast reads of centroids yield 8 P
// multiply-adds. Points are read again for every 8 centroids, by then from a cache. Centroids are read
// through the first-level cache, in the layout of kmeans/nearest.cuh.
//
// Sums are those of kmeans/wide_sums.cuh.
#pragma once

#include "galatea/kmeans/nearest.cuh"

namespace galatea {

// References to a thread's points of a tile, which remain in device memory.
template <u32 D, u32 P> struct WideTile {
    static constexpr u32 LABELS = P;
    static constexpr u32 FLOATS = 0;
    static constexpr bool SCALED = false;
    const float* data;
    unsigned char* labels;
    u32 stride;
    u32 points;  // of the chunk
    u32 tile;    // first point of the block's tile
    u32 first;   // first point of the thread
    u32 live;
    GALATEA_INLINE void fetch(const TileWalk& walk, NoLane) {
        const PointChunk& chunk = walk.chunk;
        data = chunk.data;
        labels = chunk.labels;
        stride = chunk.stride;
        points = chunk.count;
        tile = walk.tile * tile_points();
        first = tile + threadIdx.x * P;
        live = first >= points ? 0 : points - first < P ? points - first : P;
    }
    GALATEA_INLINE static u32 tile_points() { return blockDim.x * P; }
    template <class Centroids> GALATEA_INLINE void place(const Centroids&) {}
    GALATEA_INLINE bool any() const { return live != 0; }
    // Thread scope: loads a feature of the thread's live points.
    GALATEA_INLINE void load(u32 feature, float zero, float (&x)[P]) const {
        load_floats<P>(data + u64(feature) * stride + first, x);
#pragma unroll
        for (u32 p = 0; p < P; ++p) x[p] -= zero;
    }
    // Thread scope: the number of points of the tile that exist, and values of a feature of four of them. A
    // chunk with few points has fewer tiles than others.
    GALATEA_INLINE u32 tile_live() const {
        const u32 left = tile < points ? points - tile : 0;
        return left < tile_points() ? left : tile_points();
    }
    GALATEA_INLINE void load_four(u32 feature, u32 position, float (&x)[4]) const {
        load_floats<4>(data + u64(feature) * stride + tile + position, x);
    }
    // Thread scope: calls use(label, position in the tile, whether this is the first of four points and two
    // of them have the same label) for each point.
    template <class Use> GALATEA_INLINE void each_position(const u32 (&label)[P], Use use) const {
        static_assert(P == 4, "a thread's points are the four");
        const bool repeat = label[0] == label[1] || label[0] == label[2] || label[0] == label[3] ||
                            label[1] == label[2] || label[1] == label[3] || label[2] == label[3];
#pragma unroll
        for (u32 p = 0; p < P; ++p)
            if (p < live) use(label[p], first - tile + p, p == 0 && repeat);
    }
    // Thread scope: calls add(label, feature, value) for each value, relative to the origin, count(label) for
    // each point.
    template <class Add, class Count>
    GALATEA_INLINE void each(const u32 (&label)[P], const float* origin, Add add, Count count) const {
        if (live == 0) return;
#pragma unroll 1
        for (u32 f = 0; f < D; ++f) {
            float x[P];
            load(f, __ldcg(origin + f), x);
#pragma unroll
            for (u32 p = 0; p < P; ++p)
                if (p < live) add(label[p], f, x[p]);
        }
        each_position(label, [&](u32 own, u32, bool) { count(own); });
    }
};

template <u32 D> struct WideCentroids {
    static constexpr u32 C = 8;
    const float* origin;
    const float* rows;
    const float* norms;
    u32 padded;
    // Floats of shared memory.
    GALATEA_INLINE static u32 floats(u32) { return 0; }
    GALATEA_INLINE WideCentroids(const KmeansPassArguments& args, float*, NoLane)
        : origin(args.centroids), rows(origin + (D + 3) / 4 * 4), norms(rows + u64(round4(args.clusters)) * D),
          padded(round4(args.clusters)) {}

    // Thread scope, with live points: the label of the greatest score of each point; among equal ones the
    // least.
    template <u32 P> GALATEA_INLINE void nearest(const WideTile<D, P>& points, u32 (&label)[P]) const {
        float best[P];
#pragma unroll
        for (u32 p = 0; p < P; ++p) {
            label[p] = 0;
            best[p] = __int_as_float(0xff800000);
        }
#pragma unroll 1
        for (u32 first = 0; first < padded; first += C) {
            // After the last centroid, the last one is repeated: it is never greater than itself.
            const float* row[C];
            float score[C][P];
#pragma unroll
            for (u32 c = 0; c < C; ++c) {
                const u32 cluster = first + c < padded ? first + c : padded - 1;
                row[c] = rows + u64(cluster) * D;
                const float norm = __ldcg(norms + cluster);
#pragma unroll
                for (u32 p = 0; p < P; ++p) score[c][p] = norm;
            }
            if constexpr (D % 4 == 0) {
#pragma unroll 1
                for (u32 f = 0; f < D; f += 4) {
                    float x[4][P];
#pragma unroll
                    for (u32 each = 0; each < 4; ++each) points.load(f + each, __ldcg(origin + f + each), x[each]);
#pragma unroll
                    for (u32 c = 0; c < C; ++c) {
                        const float4 four = *reinterpret_cast<const float4*>(row[c] + f);
#pragma unroll
                        for (u32 p = 0; p < P; ++p) {
                            float s = fmaf(x[0][p], four.x, score[c][p]);
                            s = fmaf(x[1][p], four.y, s);
                            s = fmaf(x[2][p], four.z, s);
                            score[c][p] = fmaf(x[3][p], four.w, s);
                        }
                    }
                }
            } else {
#pragma unroll 1
                for (u32 f = 0; f < D; ++f) {
                    float x[P];
                    points.load(f, __ldcg(origin + f), x);
#pragma unroll
                    for (u32 c = 0; c < C; ++c) {
                        const float value = row[c][f];
#pragma unroll
                        for (u32 p = 0; p < P; ++p) score[c][p] = fmaf(x[p], value, score[c][p]);
                    }
                }
            }
#pragma unroll
            for (u32 c = 0; c < C; ++c) {
#pragma unroll
                for (u32 p = 0; p < P; ++p) {
                    if (score[c][p] > best[p]) {
                        best[p] = score[c][p];
                        label[p] = first + c;
                    }
                }
            }
        }
    }

    // Thread scope: the sum of the squared distances of the live points to the centroids of their labels,
    // computed from differences.
    template <u32 P> GALATEA_INLINE double distances(const WideTile<D, P>& points, const u32 (&label)[P]) const {
        float sum[P];
#pragma unroll
        for (u32 p = 0; p < P; ++p) sum[p] = 0.0f;
#pragma unroll 1
        for (u32 f = 0; f < D; ++f) {
            float x[P];
            points.load(f, __ldcg(origin + f), x);
#pragma unroll
            for (u32 p = 0; p < P; ++p) {
                if (p >= points.live) continue;
                const float difference = x[p] - rows[u64(label[p]) * D + f];
                sum[p] = fmaf(difference, difference, sum[p]);
            }
        }
        double total = 0.0;
#pragma unroll
        for (u32 p = 0; p < P; ++p) total += sum[p];
        return total;
    }
};

}  // namespace galatea
