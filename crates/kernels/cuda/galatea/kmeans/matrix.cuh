// Warp scope: the nearest of k centroids by the matrix units.
//
// Scores are those of kmeans/nearest.cuh, x·c - |c|^2 / 2, as products of halves (mma.cuh). Lanes are 8 quads
// of 4. Lane t of a quad holds features t, t + 4, ... of the quad's points, 4 consecutive ones by one load:
// what it holds of a point, as two halves, is what the unit takes of it from this lane, so no value changes
// lanes. Features 4 r to 4 r + 3 are one step r of the unit, whose 16 columns are, twice, the halves of 4
// features, against the greater halves of the centroids and against what those leave.
//
// Points and centroids come scaled, so that every score is between -3/4 and 1/4 of 15/16 2^24. Products begin
// with the norm and OFFSET, so that sums are floats whose bits, as integers, rise with the score by one for
// each unit of 1, or of less where the score is low. Shifted by 6 they leave room for the number of a
// centroid in its group of 64, so that the greatest such key is the label: a multiplication and half a
// maximum a score, where kmeans/nearest.cuh compares twice. Numbers are complemented: of equal scores the
// lowest label has the greatest key. Host twin of the bound of errors: matrix_error.
//
// A lane sees the scores of 2 of the 8 centroids of a unit's tile; quads combine keys at the end.
#pragma once

#include "galatea/kmeans/nearest.cuh"
#include "galatea/mma.cuh"

namespace galatea {

constexpr u32 QUAD = 4;
// Columns of a tile of centroids, and centroids whose numbers keys have room for.
constexpr u32 TILE_CENTROIDS = 8, GROUP_CENTROIDS = 64;

// A lane's values of the 8 P points of its warp, of T threads: features t, t + 4, ... of points 4 g to 4 g +
// 3 of each 32.
template <u32 D, u32 P, u32 T> struct QuadPoints {
    static constexpr u32 F = (D + QUAD - 1) / QUAD;
    static constexpr u32 TILE = T / WARP * 8 * P;
    static_assert(P % 4 == 0, "a lane loads 4 points of a feature at once");
    float x[F][P];
    u32 left;  // points of the chunk from the lane's first on
    bool whole;  // for all threads of the block: its tile lies in the chunk
    GALATEA_INLINE void fetch(const u64* table, const TileWalk& walk) {
        const PointChunk chunk(table, walk.chunk);
        const u32 t = lane() % QUAD, tile = walk.tile * TILE;
        const u32 first = tile + warp() * (8 * P) + lane() / QUAD * 4;
        const float* const from = chunk.data + u64(t) * chunk.stride + first;
        whole = tile + TILE <= chunk.count;
        left = first < chunk.count ? chunk.count - first : 0;
#pragma unroll
        for (u32 r = 0; r < F; ++r) {
            const bool is = D % QUAD == 0 || r * QUAD + t < D;
#pragma unroll
            for (u32 i = 0; i < P / 4; ++i) {
                float four[4] = {0.0f, 0.0f, 0.0f, 0.0f};
                if (is && (whole || i * WARP < left))
                    load_floats<4>(from + u64(r * QUAD) * chunk.stride + i * WARP, four);
#pragma unroll
                for (u32 e = 0; e < 4; ++e) x[r][4 * i + e] = four[e];
            }
        }
    }
    // Thread scope: whether point p of the lane exists.
    GALATEA_INLINE bool exists(u32 p) const { return p / 4 * WARP + p % 4 < left; }
    // Thread scope: of what was fetched, relative to the origin.
    GALATEA_INLINE void shift(const QuadPoints& fetched, const float (&origin)[F]) {
        left = fetched.left;
        whole = fetched.whole;
#pragma unroll
        for (u32 r = 0; r < F; ++r)
#pragma unroll
            for (u32 p = 0; p < P; ++p) x[r][p] = fetched.x[r][p] - origin[r];
    }
};

// Held: the centroids are one group, in registers; else they are in shared memory, as the unit takes them.
template <u32 D, u32 TILES, bool Held> struct MatrixCentroids {
    static constexpr u32 F = (D + QUAD - 1) / QUAD;
    static_assert(TILES * TILE_CENTROIDS <= GROUP_CENTROIDS, "a group's numbers fit a key");
    static constexpr float OFFSET = 12845056.0f;  // 2^24 - 15/16 2^22
    static constexpr float LEAST = 1048576.0f;    // with it, of no centroid
    static constexpr u32 BASE = 0x4b000000u;      // the bits of 2^23
    // A value against the greater halves of centroids and against the others: the same but for the order,
    // since the compiler would copy equal registers for each product.
    struct Halves {
        u32 of[2];
        GALATEA_INLINE Halves() {}
        GALATEA_INLINE explicit Halves(float value) {
            const float most = low_half(pack_halves(value, 0.0f));
            of[0] = pack_halves(value, value - most);
            of[1] = pack_halves(value - most, value);
        }
    };
    // What a lane holds of a tile: its part of the centroids, and the norms of its two columns, for either
    // row of a product: written twice, as the compiler would copy equal registers for each product, too.
    struct Tile {
        u32 b[F][2];
        float norm[4];
    };
    // Tiles whose products are under way at once: 8 products that do not wait for each other.
    template <u32 P> static constexpr u32 AT_ONCE = P >= 16 ? 1 : 16 / P < TILES ? 16 / P : TILES;
    Tile held[Held ? TILES : 1];
    const uint2* shared;  // [tile][step][lane]
    const float4* norms;  // [tile][lane of a quad]
    float origin[F];
    float scale;
    u32 groups;
    u32 shift;  // 64: a number that the compiler does not know is multiplied by, not shifted by, in another pipe

    GALATEA_INLINE static u32 tiles(u32 clusters) { return (clusters + TILES * 8 - 1) / (TILES * 8) * TILES; }
    // Floats of shared memory.
    GALATEA_INLINE static u32 floats(u32 clusters) {
        return Held ? 0 : tiles(clusters) * (F * WARP * 2 + 4 * QUAD);
    }

    // Block scope; the caller's barrier follows.
    GALATEA_INLINE MatrixCentroids(const float* source, u32 clusters, float scale, u32 shift, float* memory)
        : scale(scale), shift(shift) {
        const Centroids<D> centroids(source, clusters);
#pragma unroll
        for (u32 r = 0; r < F; ++r) {
            const u32 feature = r * QUAD + lane() % QUAD;
            origin[r] = feature < D ? __ldcg(centroids.origin + feature) : 0.0f;
        }
        groups = tiles(clusters) / TILES;
        if constexpr (Held) {
#pragma unroll
            for (u32 j = 0; j < TILES; ++j) {
#pragma unroll
                for (u32 r = 0; r < F; ++r) {
                    const uint2 pair = fragment(centroids, clusters, j, r);
                    held[j].b[r][0] = pair.x;
                    held[j].b[r][1] = pair.y;
                }
                const float4 four = norms_of(centroids, clusters, j, lane() % QUAD);
                held[j].norm[0] = four.x;
                held[j].norm[1] = four.y;
                held[j].norm[2] = four.z;
                held[j].norm[3] = four.w;
            }
        } else {
            const u32 all = tiles(clusters);
            uint2* const to = reinterpret_cast<uint2*>(memory);
            float4* const norms_to = reinterpret_cast<float4*>(memory + all * (F * WARP * 2));
            for (u32 i = warp(); i < all * F; i += warps())
                to[i * WARP + lane()] = fragment(centroids, clusters, i / F, i % F);
            for (u32 i = threadIdx.x; i < all * QUAD; i += blockDim.x)
                norms_to[i] = norms_of(centroids, clusters, i / QUAD, i % QUAD);
            shared = to;
            norms = norms_to;
        }
    }
    GALATEA_INLINE uint2 fragment(const Centroids<D>& centroids, u32 clusters, u32 tile, u32 step) const {
        const u32 cluster = tile * TILE_CENTROIDS + lane() / QUAD, feature = step * QUAD + lane() % QUAD;
        const bool is = cluster < clusters && feature < D;
        const float value = is ? __ldcg(centroids.rows + cluster * D + feature) * scale : 0.0f;
        const float most = low_half(pack_halves(value, 0.0f));
        return make_uint2(pack_halves(most, most), pack_halves(value - most, value - most));
    }
    GALATEA_INLINE float4 norms_of(const Centroids<D>& centroids, u32 clusters, u32 tile, u32 t) const {
        float norm[2], again[2];
#pragma unroll
        for (u32 c = 0; c < 2; ++c) {
            const u32 cluster = tile * TILE_CENTROIDS + 2 * t + c;
            const float of = cluster < clusters ? __ldcg(centroids.norms + cluster) : 0.0f;
            norm[c] = cluster < clusters ? fmaf(of, scale * scale, OFFSET) : LEAST;
            again[c] = cluster < clusters ? of * scale * scale + OFFSET : LEAST;
        }
        return make_float4(norm[0], norm[1], again[0], again[1]);
    }

    // Thread scope. A score and the number of its centroid in the group.
    GALATEA_INLINE i32 key(float score, u32 number) const {
        return i32(__float_as_uint(score) * shift + (63 - number - BASE * 64));
    }

    // Warp scope: all lanes call. The labels of the points of the lane's quad.
    template <u32 P> GALATEA_INLINE void nearest(const float (&x)[F][P], u32 (&label)[P]) const {
        constexpr i32 NONE = -2147483647 - 1;
        Halves halves[F][P];
#pragma unroll
        for (u32 r = 0; r < F; ++r)
#pragma unroll
            for (u32 p = 0; p < P; ++p) halves[r][p] = Halves(x[r][p] * scale);
        const u32 t = lane() % QUAD;
        if constexpr (Held) {
            i32 most[P];
#pragma unroll
            for (u32 p = 0; p < P; ++p) most[p] = NONE;
#pragma unroll
            for (u32 j = 0; j < TILES; j += AT_ONCE<P>) {
                Tile some[AT_ONCE<P>];
#pragma unroll
                for (u32 i = 0; i < AT_ONCE<P>; ++i) some[i] = held[j + i < TILES ? j + i : j];
                tiles_at(some, j, halves, most);
            }
#pragma unroll
            for (u32 p = 0; p < P; ++p) {
                i32 best = most[p] - i32(2 * t);
                best = max(best, __shfl_xor_sync(0xffffffffu, best, 1));
                best = max(best, __shfl_xor_sync(0xffffffffu, best, 2));
                label[p] = 63 - (u32(best) & 63);
            }
        } else {
            i32 best[P];
#pragma unroll
            for (u32 p = 0; p < P; ++p) best[p] = NONE;
#pragma unroll 1
            for (u32 group = 0; group < groups; ++group) {
                i32 most[P];
#pragma unroll
                for (u32 p = 0; p < P; ++p) most[p] = NONE;
                const uint2* const parts = shared + group * (TILES * F * WARP) + lane();
                const float4* const fours = norms + group * (TILES * QUAD) + t;
#pragma unroll
                for (u32 j = 0; j < TILES; j += AT_ONCE<P>) {
                    Tile some[AT_ONCE<P>];
#pragma unroll
                    for (u32 i = 0; i < AT_ONCE<P>; ++i) {
                        const u32 at = j + i < TILES ? j + i : j;
#pragma unroll
                        for (u32 r = 0; r < F; ++r) {
                            const uint2 pair = parts[(at * F + r) * WARP];
                            some[i].b[r][0] = pair.x;
                            some[i].b[r][1] = pair.y;
                        }
                        const float4 four = fours[at * QUAD];
                        some[i].norm[0] = four.x;
                        some[i].norm[1] = four.y;
                        some[i].norm[2] = four.z;
                        some[i].norm[3] = four.w;
                    }
                    tiles_at(some, j, halves, most);
                }
                // Greater than whatever number the best one has.
#pragma unroll
                for (u32 p = 0; p < P; ++p) {
                    if (group == 0 || most[p] > (best[p] | 63)) {
                        best[p] = most[p];
                        label[p] = group * (TILES * TILE_CENTROIDS) + 2 * t + 63;
                    }
                }
            }
            combine(best, label);
        }
    }

    // Warp scope: of the greatest keys that the lanes of a quad have seen, and the labels of their groups
    // plus 63 and the lane's columns, the labels of the quad's points; of equal scores the least.
    template <u32 P> GALATEA_INLINE void combine(const i32 (&best)[P], u32 (&label)[P]) const {
#pragma unroll
        for (u32 p = 0; p < P; ++p) {
            label[p] -= u32(best[p]) & 63;
            i32 score = best[p] | 63;
#pragma unroll
            for (u32 other = 1; other < QUAD; other *= 2) {
                const i32 its = __shfl_xor_sync(0xffffffffu, score, other);
                const u32 of = __shfl_xor_sync(0xffffffffu, label[p], other);
                if (its > score || (its == score && of < label[p])) {
                    score = its;
                    label[p] = of;
                }
            }
        }
    }

    // Warp scope: the scores of tiles of centroids, number j of their group and the next.
    template <u32 P, u32 N>
    GALATEA_INLINE void tiles_at(const Tile (&of)[N], u32 j, const Halves (&halves)[F][P], i32 (&most)[P]) const {
        float score[N][P / 2][4];
#pragma unroll
        for (u32 r = 0; r < F; ++r) {
#pragma unroll
            for (u32 i = 0; i < N; ++i) {
#pragma unroll
                for (u32 p = 0; p < P; p += 2) {
                    if (j + i >= TILES) continue;
                    const u32 a[4] = {halves[r][p].of[0], halves[r][p + 1].of[0], halves[r][p].of[1],
                                      halves[r][p + 1].of[1]};
                    float(&sum)[4] = score[i][p / 2];
                    if (r == 0)
                        multiply_halves(sum, a, of[i].b[r], of[i].norm);
                    else
                        multiply_halves(sum, a, of[i].b[r], sum);
                }
            }
        }
#pragma unroll
        for (u32 i = 0; i < N; ++i) {
            const u32 number = (j + i) * TILE_CENTROIDS;
#pragma unroll
            for (u32 p = 0; p < P; p += 2) {
                if (j + i >= TILES) continue;
                const float(&s)[4] = score[i][p / 2];
                most[p] = max(max(most[p], key(s[0], number)), key(s[1], number + 1));
                most[p + 1] = max(max(most[p + 1], key(s[2], number)), key(s[3], number + 1));
            }
        }
    }
};

}  // namespace galatea
