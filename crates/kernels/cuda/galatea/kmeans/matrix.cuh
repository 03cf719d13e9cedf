// Warp scope: the nearest of k centroids, computed by the matrix units.
//
// Scores are those of kmeans/nearest.cuh, x·c - |c|^2 / 2, as products of halves (mma.cuh): a value is the
// nearest half, x1, and the half nearest to the remainder, x2. Features 4 r to 4 r + 3 are one step r of the
// unit; lane t of a quad provides 4 of its 16 columns:
//
//     points     x1  x2  x1  constant of the lane
//     centroids  c1  c1  c2  (step 0:) OFFSET, or a part of the norm, over the constant
//
// The fourth product of halves, x2 c2, is below the precision kept. So sums begin with zero, and a step costs
// a unit 16 x 8 x 16 products, whatever the norms.
//
// Points and centroids are scaled so that every score is between -3/4 and 1/4 of 15/16 2^24. With OFFSET,
// sums are floats whose bits, read as integers, increase with the score by one for each unit of 1, or of less
// for low scores. Shifted by 6, they leave space for the number of a centroid in its group of 64, so that the
// greatest such key gives the label: a multiplication and half a maximum per score, compared with two
// comparisons in kmeans/nearest.cuh. Numbers are complemented: among equal scores the lowest label has the
// greatest key. Host twin of the error bound: matrix_error.
//
// A lane has the scores of 2 of the 8 centroids of a unit's tile; quads combine keys at the end.
//
//   shared memory, bytes: 8 k8 d4 for centroids that threads do not hold; k8, d4: k and d rounded up to 8 and
//   4
#pragma once

#include "galatea/kmeans/nearest.cuh"
#include "galatea/kmeans/quad_points.cuh"
#include "galatea/mma.cuh"

namespace galatea {

// Columns of a tile of centroids, and the number of centroids that a key can number.
constexpr u32 TILE_CENTROIDS = 8, GROUP_CENTROIDS = 64;

// Scores as integers, with the numbers of their centroids in a group.
struct ScoreKeys {
    static constexpr float OFFSET = 12845056.0f;  // 2^24 - 15/16 2^22
    static constexpr float LEAST = 1048576.0f;    // with it, no centroid
    static constexpr u32 BASE = 0x4b000000u;      // the bits of 2^23
    static constexpr i32 NONE = -2147483647 - 1;
    u32 factor;  // 64, unknown to the compiler, so that it multiplies in another pipe instead of shifting
    // Thread scope. A score and the number of its centroid in the group.
    GALATEA_INLINE i32 key(float score, u32 number) const {
        return i32(__float_as_uint(score) * factor + (63 - number - BASE * 64));
    }
};

// A score, as a key without its number, and its label.
struct Candidate {
    i32 score;
    u32 label;
    GALATEA_INLINE static Candidate exchange(Candidate of, u32 other) {
        return {__shfl_xor_sync(0xffffffffu, of.score, other), __shfl_xor_sync(0xffffffffu, of.label, other)};
    }
    // Among equal scores the least label.
    GALATEA_INLINE static Candidate better(Candidate a, Candidate b) {
        return b.score > a.score || (b.score == a.score && b.label < a.label) ? b : a;
    }
};

// A point's value in a lane's four columns: (x1, x2), and (x1, constant).
struct PointHalves {
    u32 both;
    u32 first;
    GALATEA_INLINE PointHalves() {}
    GALATEA_INLINE PointHalves(float value, float constant)
        : first(pack_halves(value, constant)) {
        both = pack_halves(value, value - low_half(first));
    }
};

// Held: the centroids are one group, in registers; otherwise they are in shared memory, in the layout of the
// unit. One: they are one group. Streamed: shared memory holds one group at a time, which the block stores
// there for each tile of points.
template <u32 D, u32 TILES, bool Held, bool One, bool Streamed> struct MatrixCentroids {
    static constexpr u32 F = (D + QUAD - 1) / QUAD;
    static_assert(TILES * TILE_CENTROIDS <= GROUP_CENTROIDS, "a group's numbers fit a key");
    static_assert(One || !Held, "only one group is held");
    static_assert(!One || !Streamed, "groups are streamed");
    uint2 held[Held ? TILES : 1][Held ? F : 1];
    uint2* shared;  // [tile][step][lane]
    const float* origin;
    float scale;
    float shift[F];  // of this lane's features: - origin scale
    float constant;
    u32 t;  // of the lane in its quad
    u32 clusters;
    u32 groups;
    ScoreKeys keys;

    GALATEA_INLINE static u32 tiles(u32 clusters) { return (clusters + TILES * 8 - 1) / (TILES * 8) * TILES; }
    // Floats of shared memory.
    GALATEA_INLINE static u32 floats(u32 clusters) {
        return Held ? 0 : (Streamed ? TILES : tiles(clusters)) * (F * WARP * 2);
    }
    // The factor of lane t in its fourth column: OFFSET is 3136 of 4096, a norm three halves of the others.
    static constexpr float OF_OFFSET = 4096.0f, OF_NORM = 2048.0f;
    GALATEA_INLINE static float constant_of(u32 t) { return t == 0 ? OF_OFFSET : t == 1 ? OF_NORM : 1.0f; }

    // Block scope; the caller's barrier follows.
    GALATEA_INLINE MatrixCentroids(const KmeansPassArguments& args, float* memory, const QuadLane& own)
        : origin(args.centroids), scale(args.scale),
          constant(__uint_as_float(kept(__float_as_uint(constant_of(lane() % QUAD))))), t(own.t), clusters(args.clusters),
          keys{args.key_factor} {
        const u32 all = tiles(clusters);
        const Centroids<D> centroids(args.centroids, clusters);
        groups = all / TILES;
#pragma unroll
        for (u32 r = 0; r < F; ++r) {
            const u32 feature = r * QUAD + lane() % QUAD;
            shift[r] = feature < D ? -__ldcg(origin + feature) * scale : 0.0f;
        }
        if constexpr (Held) {
#pragma unroll
            for (u32 j = 0; j < TILES; ++j)
#pragma unroll
                for (u32 r = 0; r < F; ++r) held[j][r] = fragment(centroids, clusters, j, r);
        } else {
            shared = reinterpret_cast<uint2*>(memory);
            if constexpr (!Streamed) share(0, all);
        }
    }
    // Block scope: copies tiles to shared memory.
    GALATEA_INLINE void share(u32 first, u32 count) const {
        const Centroids<D> centroids(origin, clusters);
        for (u32 i = warp(); i < count * F; i += warps())
            shared[i * WARP + lane()] = fragment(centroids, clusters, first + i / F, i % F);
    }
    // This lane's part of a tile and a step: centroid g of the tile, in the lane's columns.
    GALATEA_INLINE uint2 fragment(const Centroids<D>& centroids, u32 clusters, u32 tile, u32 step) const {
        const u32 t = lane() % QUAD, cluster = tile * TILE_CENTROIDS + lane() / QUAD, feature = step * QUAD + t;
        const bool exists = cluster < clusters;
        const float value =
            exists && feature < D ? __ldcg(centroids.rows + u64(cluster) * D + feature) * scale : 0.0f;
        const float most = low_half(pack_halves(value, 0.0f));
        const float norm = exists ? __ldcg(centroids.norms + cluster) * scale * scale : 0.0f;
        const float part = step == 0 ? norm_part(exists, norm, t) : 0.0f;
        return make_uint2(pack_halves(most, most), pack_halves(value - most, part));
    }
    // The multiplier of lane t's constant.
    GALATEA_INLINE static float norm_part(bool exists, float norm, u32 t) {
        const float first = low_half(pack_halves(norm * (1.0f / OF_NORM), 0.0f));
        const float rest = norm - first * OF_NORM;
        const float second = low_half(pack_halves(rest, 0.0f));
        const float most = (exists ? ScoreKeys::OFFSET : ScoreKeys::LEAST) / OF_OFFSET;
        return t == 0 ? most : t == 1 ? first : t == 2 ? second : rest - second;
    }

    // Warp scope: called by all lanes; if centroids are streamed, by all of the block. Returns the labels of
    // point t of each four of the lane's quad; k for points that do not exist.
    template <u32 P, u32 T>
    GALATEA_INLINE void nearest(const QuadPoints<D, P, T>& points, u32 (&label)[P / QUAD]) const {
        // Processing more points at once would need more registers than the saved waiting is worth.
        constexpr u32 W = P < 8 ? P : 8;
#pragma unroll
        for (u32 first = 0; first < P; first += W) {
            PointHalves halves[F][W];
#pragma unroll
            for (u32 r = 0; r < F; ++r)
#pragma unroll
                for (u32 p = 0; p < W; ++p)
                    halves[r][p] = PointHalves(points.x[r][first + p], r == 0 ? constant : 0.0f);
            // 8 products that are independent of each other.
            nearest_of<W, 16 / W>(halves, label + first / QUAD);
        }
#pragma unroll
        for (u32 i = 0; i < P / QUAD; ++i)
            if (!points.exists(i, t)) label[i] = clusters;
    }
    // Processes W points of the lane's quad, N tiles of centroids at once.
    template <u32 W, u32 N> GALATEA_INLINE void nearest_of(const PointHalves (&all)[F][W], u32* label) const {
        i32 best[W];
        u32 base[W];
#pragma unroll 1
        for (u32 group = 0; group < (One ? 1 : groups); ++group) {
            if constexpr (Streamed) {
                __syncthreads();
                share(group * TILES, TILES);
                __syncthreads();
            }
            i32 most[W];
#pragma unroll
            for (u32 p = 0; p < W; ++p) most[p] = ScoreKeys::NONE;
#pragma unroll
            for (u32 j = 0; j < TILES; j += N) {
                float score[N][W / 2][4] = {};
#pragma unroll
                for (u32 r = 0; r < F; ++r) {
                    const PointHalves(&halves)[W] = all[r];
#pragma unroll
                    for (u32 i = 0; i < N; ++i) {
                        if (j + i >= TILES) continue;
                        const uint2 part = part_of(group, j + i, r);
                        const u32 b[2] = {part.x, part.y};
#pragma unroll
                        for (u32 p = 0; p < W; p += 2) {
                            const u32 a[4] = {halves[p].both, halves[p + 1].both, halves[p].first,
                                              halves[p + 1].first};
                            multiply_halves(score[i][p / 2], a, b, score[i][p / 2]);
                        }
                    }
                }
#pragma unroll
                for (u32 i = 0; i < N; ++i) {
                    const u32 number = (j + i) * TILE_CENTROIDS;
#pragma unroll
                    for (u32 p = 0; p < W; p += 2) {
                        if (j + i >= TILES) continue;
                        const float(&s)[4] = score[i][p / 2];
                        most[p] = max(max(most[p], keys.key(s[0], number)), keys.key(s[1], number + 1));
                        most[p + 1] =
                            max(max(most[p + 1], keys.key(s[2], number)), keys.key(s[3], number + 1));
                    }
                }
            }
#pragma unroll
            for (u32 p = 0; p < W; ++p) {
                // Greater for any number of the best one.
                if (One || group == 0 || most[p] > (best[p] | 63)) {
                    best[p] = most[p];
                    base[p] = group * (TILES * TILE_CENTROIDS);
                }
            }
        }
        const i32 column = 2 * t;
#pragma unroll
        for (u32 i = 0; i < W / QUAD; ++i) {
            if constexpr (One) {
                i32 own[QUAD];
#pragma unroll
                for (u32 p = 0; p < QUAD; ++p) own[p] = best[QUAD * i + p];
                // Numbers are relative to a lane's own column.
                const auto exchange = [&](i32 key, u32 other) {
                    const i32 from = column ^ i32(2 * other);
                    return __shfl_xor_sync(0xffffffffu, key, other) + (column - from);
                };
                const i32 most = quad_best(t, own, exchange, [](i32 a, i32 b) { return max(a, b); });
                label[i] = ~u32(most - column) & 63;
            } else {
                Candidate all[QUAD];
#pragma unroll
                for (u32 p = 0; p < QUAD; ++p) {
                    const i32 key = best[QUAD * i + p];
                    all[p] = {key | 63, base[QUAD * i + p] + u32(column) + (~u32(key) & 63)};
                }
                label[i] = quad_best(t, all, Candidate::exchange, Candidate::better).label;
            }
        }
    }
    GALATEA_INLINE uint2 part_of(u32 group, u32 tile, u32 step) const {
        if constexpr (Held)
            return held[tile][step];
        else
            return shared[(((Streamed ? 0 : group * TILES) + tile) * F + step) * WARP + lane()];
    }
};

}  // namespace galatea
