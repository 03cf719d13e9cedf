// Block scope: passes over points with more features than a thread's registers hold.
//
// Scores: a thread has P points and 8 centroids at a time, 8 P scores in registers, and goes through the
// features: a vector load of a feature of its points and 8 broadcast reads of centroids make 8 P
// multiply-adds. Points are read again for every 8 centroids, by then from a cache. Centroids are read
// through the first-level cache, in the layout of kmeans/nearest.cuh.
//
// Sums: Partitioned Features (thesis §5.2.1). The block exchanges its labels behind one barrier; then its
// threads are `groups` groups, of which each takes a part of the tile's points. A thread of a group owns
// features, and alone adds them: nothing is atomic, and lanes have words of different banks. Masses are
// counted by the threads that have the points, by integer atomics of the block.
//
//   shared memory of t threads, bytes: 4 (groups k d + k + t P)
#pragma once

#include "galatea/kmeans/nearest.cuh"
#include "galatea/kmeans/sums.cuh"

namespace galatea {

// A thread's points of a tile, where they are.
template <u32 D, u32 P> struct WideTile {
    const float* data;
    unsigned char* labels;
    u32 stride;
    u32 count;
    u32 tile;   // first point of the block's
    u32 first;  // and of the thread's
    u32 live;
    GALATEA_INLINE WideTile(const u64* table, const TileWalk& walk) {
        const PointChunk chunk(table, walk.chunk);
        data = chunk.data;
        labels = chunk.labels;
        stride = chunk.stride;
        count = chunk.count;
        tile = walk.tile * blockDim.x * P;
        first = tile + threadIdx.x * P;
        live = first >= count ? 0 : count - first < P ? count - first : P;
    }
    // Thread scope, with live points: their values of a feature.
    GALATEA_INLINE void load(u32 feature, float zero, float (&x)[P]) const {
        load_floats<P>(data + u64(feature) * stride + first, x);
#pragma unroll
        for (u32 p = 0; p < P; ++p) x[p] -= zero;
    }
};

template <u32 D> struct WideCentroids {
    static constexpr u32 C = 8;
    const float* origin;
    const float* rows;
    const float* norms;
    u32 padded;
    GALATEA_INLINE WideCentroids(const float* memory, u32 clusters)
        : origin(memory), rows(memory + (D + 3) / 4 * 4), norms(rows + u64(round4(clusters)) * D),
          padded(round4(clusters)) {}

    // Thread scope, with live points: of each the label of the greatest score, of equal ones the least.
    template <u32 P> GALATEA_INLINE void nearest(const WideTile<D, P>& points, u32 (&label)[P]) const {
        float best[P];
#pragma unroll
        for (u32 p = 0; p < P; ++p) {
            label[p] = 0;
            best[p] = __int_as_float(0xff800000);
        }
#pragma unroll 1
        for (u32 first = 0; first < padded; first += C) {
            // Beyond the last the last once more: it is never greater than itself.
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

    // Thread scope: the sum of the squared distances of the live points to the centroids of their labels, by
    // differences.
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

template <u32 D, u32 P> struct WideFeatureSums {
    static_assert(P == 4, "a thread reads the labels of four points at once");
    static constexpr u32 NONE = 0xffffffffu;
    float* sums;  // [group][cluster][feature]
    u32* masses;  // [cluster]
    u32* labels;  // [point of the tile]
    u32 clusters;
    u32 groups;
    GALATEA_INLINE WideFeatureSums(float* memory, u32 clusters, u32 groups)
        : labels(reinterpret_cast<u32*>(memory)), clusters(clusters), groups(groups) {
        sums = memory + blockDim.x * P;
        masses = reinterpret_cast<u32*>(sums + groups * clusters * D);
        clear(sums, groups * clusters * D + clusters);
    }
    // Block scope.
    GALATEA_INLINE void add(const WideTile<D, P>& points, const float* origin, const u32 (&label)[P]) {
#pragma unroll
        for (u32 p = 0; p < P; ++p) {
            labels[threadIdx.x * P + p] = p < points.live ? label[p] : NONE;
            if (p < points.live) atomicAdd(masses + label[p], 1u);
        }
        __syncthreads();
        const u32 width = blockDim.x / groups, group = threadIdx.x / width;
        const u32 part = width * P;
        float* const own = sums + group * clusters * D;
        for (u32 f = threadIdx.x % width; f < D; f += width) {
            const float zero = __ldcg(origin + f);
            const float* const column = points.data + u64(f) * points.stride + points.tile;
            for (u32 q = group * part; q < (group + 1) * part && points.tile + q < points.count; q += P) {
                float x[P];
                load_floats<P>(column + q, x);
                const uint4 of = *reinterpret_cast<const uint4*>(labels + q);
                if (of.x != NONE) own[of.x * D + f] += x[0] - zero;
                if (of.y != NONE) own[of.y * D + f] += x[1] - zero;
                if (of.z != NONE) own[of.z * D + f] += x[2] - zero;
                if (of.w != NONE) own[of.w * D + f] += x[3] - zero;
            }
        }
        __syncthreads();
    }
    GALATEA_INLINE void merge(double* partials) {
        __syncthreads();
        const u32 words = clusters * D;
        for (u32 i = threadIdx.x; i < words; i += blockDim.x) {
            double total = 0.0;
            for (u32 group = 0; group < groups; ++group) {
                total += sums[group * words + i];
                sums[group * words + i] = 0.0f;
            }
            add_partial(partials + i, total);
        }
        for (u32 c = threadIdx.x; c < clusters; c += blockDim.x) {
            add_partial(partials + words + c, masses[c]);
            masses[c] = 0;
        }
        __syncthreads();
    }
};

template <u32 D, u32 P> struct WideGlobalSums {
    double* partials;
    u32 clusters;
    GALATEA_INLINE void add(const WideTile<D, P>& points, const float* origin, const u32 (&label)[P]) {
        if (points.live == 0) return;
#pragma unroll 1
        for (u32 f = 0; f < D; ++f) {
            float x[P];
            points.load(f, __ldcg(origin + f), x);
#pragma unroll
            for (u32 p = 0; p < P; ++p)
                if (p < points.live) atomicAdd(partials + u64(label[p]) * D + f, double(x[p]));
        }
#pragma unroll
        for (u32 p = 0; p < P; ++p)
            if (p < points.live) atomicAdd(partials + u64(clusters) * D + label[p], 1.0);
    }
    GALATEA_INLINE void merge(double*) {}
};

template <u32 D, u32 P> struct WideNoSums {
    GALATEA_INLINE void add(const WideTile<D, P>&, const float*, const u32 (&)[P]) {}
    GALATEA_INLINE void merge(double*) {}
};

}  // namespace galatea
