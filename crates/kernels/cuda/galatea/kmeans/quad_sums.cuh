// Warp scope: sums of points that quads of lanes hold by feature (kmeans/quad_points.cuh): lanes own
// features, and alone add them, so no atomics are needed.
//
// There are 32 / L copies per warp. With L = 4 a lane owns the features that it holds, of its quad's points.
// If memory does not suffice for that number, L is the least power of two that is not less than the number of
// features, and points are exchanged between lanes through a tile in shared memory, 32 at a time: lane l of a
// group of L owns feature l of the group's points. Piece (f, g) of the tile, 16 bytes, is feature f of the
// points of quad g. It is at column g ^ (f % 8), so that the 8 lanes of each quarter of a 16-byte access use
// all 32 banks in both directions.
#pragma once

#include "galatea/kmeans/feature_sums.cuh"
#include "galatea/kmeans/quad_points.cuh"

namespace galatea {

// N: number of sums that a lane has for a cluster's feature.
template <u32 D, u32 L, u32 N> struct QuadFeatureSums {
    static_assert(L == QUAD || (D <= L && L <= WARP), "a lane owns the features it holds, or one");
    static constexpr u32 S = WARP / L;
    // Number of copies of the masses.
    static constexpr u32 COPIES = 8;
    // Floats of a warp's tile and labels.
    static constexpr u32 TILE = L * WARP;
    static constexpr u32 EXCHANGE = L == QUAD ? 0 : TILE + WARP;
    float* exchange;  // of this warp
    static_assert(N == 1 || L == QUAD, "points of a quad are added at once");
    using Owned = OwnedSums<D, L, true, N>;
    Owned sums;
    GALATEA_INLINE explicit QuadFeatureSums(const SumsPlace& place)
        : exchange(place.shared + warp() * EXCHANGE),
          sums(place, place.shared + warps() * EXCHANGE, COPIES, lane() / QUAD) {}
    // Warp scope: called by all lanes.
    template <u32 P, u32 T>
    GALATEA_INLINE void add(const QuadPoints<D, P, T>& points, const u32 (&label)[P / QUAD]) {
#pragma unroll
        for (u32 i = 0; i < P / QUAD; ++i) {
            sums.count(label[i]);
            if constexpr (L == QUAD)
                own(points, label[i], i);
            else
                change(points, label[i], i);
        }
    }
    // After the last feature a lane adds zeros to its own words.
    template <u32 P, u32 T> GALATEA_INLINE void own(const QuadPoints<D, P, T>& points, u32 label, u32 i) {
        const u32 place = sums.place_of(label);
#pragma unroll
        for (u32 p = 0; p < QUAD; p += N) {
            u32 places[N];
            float values[N][Owned::F];
#pragma unroll
            for (u32 n = 0; n < N; ++n) {
                places[n] = of_quad(place, p + n);
#pragma unroll
                for (u32 r = 0; r < Owned::F; ++r) values[n][r] = points.x[r][QUAD * i + p + n];
            }
            sums.add(places, values);
        }
    }
    template <u32 P, u32 T> GALATEA_INLINE void change(const QuadPoints<D, P, T>& points, u32 label, u32 i) {
        float4* const tile = reinterpret_cast<float4*>(exchange);
        u32* const places = reinterpret_cast<u32*>(exchange + TILE);
        const u32 g = lane() / QUAD, t = lane() % QUAD;
        // Waits for lanes that still read the previous tile.
        __syncwarp();
#pragma unroll
        for (u32 r = 0; r < QuadPoints<D, P, T>::F; ++r) {
            const u32 f = r * QUAD + t;
            const float(&x)[P] = points.x[r];
            tile[f * 8 + (g ^ f % 8)] = make_float4(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]);
        }
        places[lane()] = sums.place_of(label);
        __syncwarp();
        const u32 f = lane() % L, group = lane() / L;
        if (D == L || f < D) {
#pragma unroll 2
            for (u32 j = 0; j < 8 / S; ++j) {
                const u32 q = j * S + group;
                const float4 four = tile[f * 8 + (q ^ f % 8)];
                const uint4 of = reinterpret_cast<const uint4*>(places)[q];
                sums.add({of.x}, {{four.x}});
                sums.add({of.y}, {{four.y}});
                sums.add({of.z}, {{four.z}});
                sums.add({of.w}, {{four.w}});
            }
        }
    }
    GALATEA_INLINE void merge(double* partials) { sums.merge(partials); }
};

}  // namespace galatea
