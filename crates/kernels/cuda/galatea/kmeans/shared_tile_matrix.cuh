// Block scope: the nearest of k centroids by the matrix units, for points in shared memory
// (kmeans/shared_tile.cuh).
//
// Scores and keys are those of kmeans/matrix.cuh. With many features, all columns of the units are for
// products of halves: 16 features per step, lane t of a quad with features t, t + 4, t + 8, t + 12, and three
// products,
//
//     points     x1  x2  x1
//     centroids  c1  c1  c2
//
// Sums begin with OFFSET and the norm. Centroids are in shared memory in the layout of the unit, 4 bytes per
// feature; a lane's 16 bytes serve six products. C warps with the same points each process a C-th of a group
// of centroids, and exchange the best.
//
// shared memory, bytes: 4 k8 d16 for centroids (streamed: of a group), 4 (k8 + d16), 8 C n for n points if C
// > 1; k8, d16: k and d rounded up to whole groups of tiles and to 16
#pragma once

#include "galatea/kmeans/matrix.cuh"
#include "galatea/kmeans/shared_tile.cuh"

namespace galatea {

// One: the centroids are one group. Streamed: shared memory holds one group at a time, which the block stores
// there for each tile of points.
template <u32 D, u32 TILES, u32 N, u32 C, bool One, bool Streamed> struct SharedTileCentroids {
    static constexpr u32 STEPS = (D + 15) / 16;
    static constexpr u32 OWN = TILES / C;  // tiles of a warp
    static_assert(TILES % C == 0 && TILES * TILE_CENTROIDS <= GROUP_CENTROIDS, "warps have as many tiles each");
    uint4* parts;   // [tile][step][lane]
    float* starts;  // [cluster]: initial value of scores
    float4* shifts; // [step][t]: - origin scale
    Candidate* seen;  // [share][point]
    const float* origin;
    float scale;
    u32 clusters;
    u32 groups;
    ScoreKeys keys;

    GALATEA_INLINE static u32 tiles(u32 clusters) { return (clusters + TILES * 8 - 1) / (TILES * 8) * TILES; }
    GALATEA_INLINE static u32 part_floats(u32 clusters) {
        return (Streamed ? TILES : tiles(clusters)) * (STEPS * WARP * 4);
    }
    // Floats of shared memory.
    GALATEA_INLINE static u32 floats(u32 clusters) {
        return part_floats(clusters) + tiles(clusters) * TILE_CENTROIDS + STEPS * 16 + (C > 1 ? 2 * C * N : 0);
    }

    // Block scope; the caller's barrier follows.
    GALATEA_INLINE SharedTileCentroids(const KmeansPassArguments& args, float* memory, const SharedTileLane<C>&)
        : parts(reinterpret_cast<uint4*>(memory)), starts(memory + part_floats(args.clusters)),
          shifts(reinterpret_cast<float4*>(starts + tiles(args.clusters) * TILE_CENTROIDS)),
          seen(reinterpret_cast<Candidate*>(shifts + STEPS * QUAD)), origin(args.centroids), scale(args.scale),
          clusters(args.clusters), groups(tiles(args.clusters) / TILES), keys{args.key_factor} {
        const Centroids<D> centroids(origin, clusters);
        for (u32 c = threadIdx.x; c < groups * TILES * TILE_CENTROIDS; c += blockDim.x)
            starts[c] = c < clusters ? ScoreKeys::OFFSET + __ldcg(centroids.norms + c) * scale * scale : ScoreKeys::LEAST;
        for (u32 i = threadIdx.x; i < STEPS * 16; i += blockDim.x) {
            const u32 feature = i / 16 * 16 + i % 16 / 4 + i % 4 * 4;
            reinterpret_cast<float*>(shifts)[i] = feature < D ? -__ldcg(origin + feature) * scale : 0.0f;
        }
        if constexpr (!Streamed) share(0, groups * TILES);
    }
    // Block scope: copies tiles to shared memory.
    GALATEA_INLINE void share(u32 first, u32 count) const {
        const Centroids<D> centroids(origin, clusters);
#pragma unroll 2
        for (u32 i = warp(); i < count * STEPS; i += warps()) {
            const u32 cluster = (first + i / STEPS) * TILE_CENTROIDS + lane() / QUAD;
            float value[4];
#pragma unroll
            for (u32 e = 0; e < 4; ++e) {
                const u32 feature = i % STEPS * 16 + e * 4 + lane() % QUAD;
                const bool exists = cluster < clusters && (D % 16 == 0 || feature < D);
                value[e] = exists ? __ldcg(centroids.rows + u64(cluster) * D + feature) * scale : 0.0f;
            }
            u32 most[2], rest[2];
            split(value, most, rest);
            parts[i * WARP + lane()] = make_uint4(most[0], most[1], rest[0], rest[1]);
        }
    }
    // Thread scope: four values as halves, and their remainders.
    GALATEA_INLINE static void split(const float (&value)[4], u32 (&most)[2], u32 (&rest)[2]) {
#pragma unroll
        for (u32 e = 0; e < 2; ++e) {
            most[e] = pack_halves(value[2 * e], value[2 * e + 1]);
            rest[e] = pack_halves(value[2 * e] - low_half(most[e]), value[2 * e + 1] - high_half(most[e]));
        }
    }

    // Block scope. The label of point t of the lane's quad, in all warps that have the point.
    template <u32 B> GALATEA_INLINE void nearest(const SharedTile<D, N, B, C>& points, u32 (&label)[1]) const {
        const u32 t = points.t, first = points.share * OWN;
        i32 best[QUAD];
        u32 base[QUAD];
#pragma unroll 1
        for (u32 group = 0; group < (One ? 1 : groups); ++group) {
            if constexpr (Streamed) {
                __syncthreads();
                share(group * TILES, TILES);
                __syncthreads();
            }
            float score[OWN][2][4];
#pragma unroll
            for (u32 i = 0; i < OWN; ++i) {
                const u32 column = (group * TILES + first + i) * TILE_CENTROIDS + 2 * t;
                const float2 start = *reinterpret_cast<const float2*>(starts + column);
#pragma unroll
                for (u32 h = 0; h < 2; ++h) {
                    score[i][h][0] = score[i][h][2] = start.x;
                    score[i][h][1] = score[i][h][3] = start.y;
                }
            }
            const uint4* const own = parts + ((Streamed ? 0 : group * TILES) + first) * (STEPS * WARP) + lane();
#pragma unroll 1
            for (u32 step = 0; step < STEPS; ++step) add_step(points, own + step * WARP, step, score);
#pragma unroll
            for (u32 p = 0; p < QUAD; ++p) {
                i32 most = ScoreKeys::NONE;
#pragma unroll
                for (u32 i = 0; i < OWN; ++i) {
                    const u32 number = (first + i) * TILE_CENTROIDS;
                    const float(&s)[4] = score[i][p / 2];
                    most = max(max(most, keys.key(s[p % 2 * 2], number)), keys.key(s[p % 2 * 2 + 1], number + 1));
                }
                // Greater for any number of the best one.
                if (One || group == 0 || most > (best[p] | 63)) {
                    best[p] = most;
                    base[p] = group * (TILES * TILE_CENTROIDS);
                }
            }
        }
        Candidate all[QUAD];
#pragma unroll
        for (u32 p = 0; p < QUAD; ++p) all[p] = {best[p] | 63, base[p] + 2 * t + (~u32(best[p]) & 63)};
        Candidate nearest = quad_best(t, all, Candidate::exchange, Candidate::better);
        if constexpr (C > 1) {
            const u32 point = 4 * points.quad + t;
            seen[points.share * N + point] = nearest;
            __syncthreads();
            nearest = seen[point];
#pragma unroll
            for (u32 other = 1; other < C; ++other) nearest = Candidate::better(nearest, seen[other * N + point]);
        }
        label[0] = nearest.label;
    }
    // Warp scope: adds the products of 16 features.
    template <u32 B>
    GALATEA_INLINE void add_step(const SharedTile<D, N, B, C>& points, const uint4* own, u32 step,
                                 float (&score)[OWN][2][4]) const {
        const float4 four = shifts[step * QUAD + points.t];
        const float shift[4] = {four.x, four.y, four.z, four.w};
        float x[4][QUAD];
#pragma unroll
        for (u32 e = 0; e < 4; ++e) {
            const u32 feature = step * 16 + e * 4 + points.t;
#pragma unroll
            for (u32 p = 0; p < QUAD; ++p) x[e][p] = 0.0f;
            if (D % 16 == 0 || feature < D) {
                points.load_four(feature, 4 * points.quad, x[e]);
#pragma unroll
                for (u32 p = 0; p < QUAD; ++p) x[e][p] = fmaf(x[e][p], scale, shift[e]);
            }
        }
        u32 most[2][4], rest[2][4];
#pragma unroll
        for (u32 p = 0; p < QUAD; ++p) {
            const float value[4] = {x[0][p], x[1][p], x[2][p], x[3][p]};
            u32 of_most[2], of_rest[2];
            split(value, of_most, of_rest);
#pragma unroll
            for (u32 e = 0; e < 2; ++e) {
                most[p / 2][2 * e + p % 2] = of_most[e];
                rest[p / 2][2 * e + p % 2] = of_rest[e];
            }
        }
#pragma unroll
        for (u32 i = 0; i < OWN; ++i) {
            const uint4 part = own[i * (STEPS * WARP)];
            const u32 c1[2] = {part.x, part.y}, c2[2] = {part.z, part.w};
#pragma unroll
            for (u32 h = 0; h < 2; ++h) multiply_halves(score[i][h], most[h], c1, score[i][h]);
#pragma unroll
            for (u32 h = 0; h < 2; ++h) multiply_halves(score[i][h], rest[h], c1, score[i][h]);
#pragma unroll
            for (u32 h = 0; h < 2; ++h) multiply_halves(score[i][h], most[h], c2, score[i][h]);
        }
    }
};

}  // namespace galatea
