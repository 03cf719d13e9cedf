// Block scope: the nearest of k centroids by the matrix units, for points with more features than a thread's
// registers hold.
//
// Scores, keys and lanes are those of kmeans/matrix.cuh. Here the sums of up to 64 centroids stay in
// registers while the warp goes through the features, 4 at a time: a vector load of a lane's 4 points and 8
// bytes of shared memory for each tile of 8 centroids make 16 x 8 sums of 16 products twice. Points are read
// again for every 64 centroids and for the sums, by then from a cache.
//
// Sums: Partitioned Features (thesis §5.2.1) as in kmeans/wide.cuh, or atomics in device memory. A tile has
// as many points as the block has threads.
//
//   shared memory of t threads, bytes: 8 k8 d4 + 8 k8 for centroids, d4: d rounded up to 4; 4 (groups k d + k
//   + t) for sums
#pragma once

#include "galatea/kmeans/matrix.cuh"
#include "galatea/kmeans/sums.cuh"

namespace galatea {

// Where a lane's 4 points of a tile are.
struct WideQuad {
    const float* data;  // of the chunk
    u32 stride;
    u32 count;
    u32 tile;   // first point of the block's
    u32 first;  // and of the lane's
    GALATEA_INLINE WideQuad(const u64* table, const TileWalk& walk) {
        const PointChunk chunk(table, walk.chunk);
        data = chunk.data;
        stride = chunk.stride;
        count = chunk.count;
        tile = walk.tile * blockDim.x;
        first = tile + warp() * WARP + lane() / QUAD * 4;
    }
    GALATEA_INLINE bool exists(u32 p) const { return first + p < count; }
    // Thread scope: values of a feature, relative to the origin; 0 where there is none.
    template <u32 D> GALATEA_INLINE void load(u32 feature, const float* origin, float (&x)[4]) const {
#pragma unroll
        for (u32 p = 0; p < 4; ++p) x[p] = 0.0f;
        if (first >= count || feature >= D) return;
        load_floats<4>(data + u64(feature) * stride + first, x);
        const float zero = __ldcg(origin + feature);
#pragma unroll
        for (u32 p = 0; p < 4; ++p) x[p] -= zero;
    }
};

// Warp scope: all lanes call. The labels of the 4 points of the lane's quad.
template <u32 D, u32 TILES>
GALATEA_INLINE void nearest_wide(const MatrixCentroids<D, TILES, false>& centroids, const float* origin,
                                 const WideQuad& points, u32 (&label)[4]) {
    using Matrix = MatrixCentroids<D, TILES, false>;
    constexpr u32 F = Matrix::F;
    const u32 t = lane() % QUAD;
    i32 best[4];
#pragma unroll 1
    for (u32 group = 0; group < centroids.groups; ++group) {
        const uint2* const parts = centroids.shared + group * (TILES * F * WARP) + lane();
        float score[TILES][2][4];
#pragma unroll
        for (u32 j = 0; j < TILES; ++j) {
            const float4 norm = centroids.norms[(group * TILES + j) * QUAD + t];
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                score[j][half][0] = norm.x;
                score[j][half][1] = norm.y;
                score[j][half][2] = norm.z;
                score[j][half][3] = norm.w;
            }
        }
#pragma unroll 1
        for (u32 r = 0; r < F; ++r) {
            float x[4];
            points.load<D>(r * QUAD + t, origin, x);
            typename Matrix::Halves halves[4];
#pragma unroll
            for (u32 p = 0; p < 4; ++p) halves[p] = typename Matrix::Halves(x[p] * centroids.scale);
#pragma unroll
            for (u32 j = 0; j < TILES; ++j) {
                const uint2 pair = parts[(j * F + r) * WARP];
                const u32 b[2] = {pair.x, pair.y};
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    const u32 a[4] = {halves[2 * half].of[0], halves[2 * half + 1].of[0], halves[2 * half].of[1],
                                      halves[2 * half + 1].of[1]};
                    multiply_halves(score[j][half], a, b, score[j][half]);
                }
            }
        }
        i32 most[4];
#pragma unroll
        for (u32 p = 0; p < 4; ++p) most[p] = -2147483647 - 1;
#pragma unroll
        for (u32 j = 0; j < TILES; ++j) {
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                const float(&s)[4] = score[j][half];
                const u32 number = j * TILE_CENTROIDS;
                i32& one = most[2 * half];
                i32& two = most[2 * half + 1];
                one = max(max(one, centroids.key(s[0], number)), centroids.key(s[1], number + 1));
                two = max(max(two, centroids.key(s[2], number)), centroids.key(s[3], number + 1));
            }
        }
        // Greater than whatever number the best one has.
#pragma unroll
        for (u32 p = 0; p < 4; ++p) {
            if (group == 0 || most[p] > (best[p] | 63)) {
                best[p] = most[p];
                label[p] = group * (TILES * TILE_CENTROIDS) + 2 * t + 63;
            }
        }
    }
    centroids.combine(best, label);
}

template <u32 D> struct WideQuadFeatureSums {
    static constexpr u32 NONE = 0xffffffffu;
    u32* labels;  // [point of the tile]
    float* sums;  // [group][cluster][feature]
    u32* masses;  // [cluster]
    u32 clusters;
    u32 groups;
    GALATEA_INLINE WideQuadFeatureSums(float* memory, u32 clusters, u32 groups)
        : labels(reinterpret_cast<u32*>(memory)), sums(memory + blockDim.x),
          masses(reinterpret_cast<u32*>(sums + groups * clusters * D)), clusters(clusters), groups(groups) {
        clear(sums, groups * clusters * D + clusters);
    }
    // Block scope.
    GALATEA_INLINE void add(const WideQuad& points, const float* origin, const u32 (&label)[4]) {
        if (lane() % QUAD == 0) {
#pragma unroll
            for (u32 p = 0; p < 4; ++p) {
                labels[points.first - points.tile + p] = points.exists(p) ? label[p] : NONE;
                if (points.exists(p)) atomicAdd(masses + label[p], 1u);
            }
        }
        __syncthreads();
        const u32 width = blockDim.x / groups, group = threadIdx.x / width;
        float* const own = sums + group * clusters * D;
        for (u32 f = threadIdx.x % width; f < D; f += width) {
            const float zero = __ldcg(origin + f);
            const float* const column = points.data + u64(f) * points.stride + points.tile;
            for (u32 q = group * width; q < (group + 1) * width && points.tile + q < points.count; q += 4) {
                float x[4];
                load_floats<4>(column + q, x);
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

template <u32 D> struct WideQuadGlobalSums {
    double* partials;
    u32 clusters;
    GALATEA_INLINE void add(const WideQuad& points, const float* origin, const u32 (&label)[4]) {
        const u32 t = lane() % QUAD;
#pragma unroll 1
        for (u32 f = t; f < D; f += QUAD) {
            float x[4];
            points.load<D>(f, origin, x);
#pragma unroll
            for (u32 p = 0; p < 4; ++p)
                if (points.exists(p)) atomicAdd(partials + u64(label[p]) * D + f, double(x[p]));
        }
        if (t == 0) {
#pragma unroll
            for (u32 p = 0; p < 4; ++p)
                if (points.exists(p)) atomicAdd(partials + u64(clusters) * D + label[p], 1.0);
        }
    }
    GALATEA_INLINE void merge(double*) {}
};

}  // namespace galatea
