// Warp scope: sums of points that quads of lanes hold by feature (kmeans/matrix.cuh), by three of the ways of
// kmeans/sums.cuh.
//
//   features   lanes own features, and alone add them: nothing is atomic
//   shared     copies of the block, by atomics; a quad has one of up to 8
//   global     in device memory, by atomics
//
// By features there are 32 / L copies a warp. With L = 4 a lane owns the features that it holds, of its
// quad's points. Where there is no room for as many, L is the least power of two with room for the features,
// and points change lanes through a tile in shared memory, 32 at a time: lane l of a group of L owns feature
// l of the group's points. Piece (f, g) of the tile, 16 bytes, is feature f of the points of quad g. It lies
// at column g ^ (f % 8), which gives the 8 lanes of each quarter of a 16-byte access all 32 banks both ways.
#pragma once

#include "galatea/kmeans/feature_sums.cuh"
#include "galatea/kmeans/matrix.cuh"

namespace galatea {

// Thread scope: counts the points of a quad, lane t point t of each four, by count(label).
template <u32 D, u32 P, u32 T, class Count>
GALATEA_INLINE void count_quads(const QuadPoints<D, P, T>& points, const u32 (&label)[P], Count count) {
    const u32 t = lane() % QUAD;
#pragma unroll
    for (u32 i = 0; i < P / 4; ++i) {
        const u32* const of = label + 4 * i;
        const u32 own = t < 2 ? (t == 0 ? of[0] : of[1]) : (t == 2 ? of[2] : of[3]);
        if (points.whole || points.exists(4 * i + t)) count(own);
    }
}

// Thread scope: add(label, round, feature, value) for the values that this lane holds.
template <u32 D, u32 P, u32 T, class Add>
GALATEA_INLINE void add_quads(const QuadPoints<D, P, T>& points, const u32 (&label)[P], Add add) {
    const u32 t = lane() % QUAD;
    const auto point = [&](u32 p) {
#pragma unroll
        for (u32 r = 0; r < QuadPoints<D, P, T>::F; ++r)
            if (D % QUAD == 0 || r * QUAD + t < D) add(label[p], r * QUAD + t, points.x[r][p]);
    };
    // All points exist but at the ends of chunks.
    if (points.whole) {
#pragma unroll
        for (u32 p = 0; p < P; ++p) point(p);
    } else {
#pragma unroll
        for (u32 p = 0; p < P; ++p)
            if (points.exists(p)) point(p);
    }
}

template <u32 D, u32 L> struct QuadFeatureSums {
    static_assert(L == QUAD || (D <= L && L <= WARP), "a lane owns the features it holds, or one");
    static constexpr u32 NONE = 0xffffffffu;
    static constexpr u32 S = WARP / L;
    // Of masses.
    static constexpr u32 COPIES = 8;
    // Floats of a warp's tile and labels.
    static constexpr u32 TILE = L * WARP;
    static constexpr u32 EXCHANGE = L == QUAD ? 0 : TILE + WARP;
    float* exchange;  // of this warp
    OwnedSums<D, L> sums;
    GALATEA_INLINE static u32 floats(u32 clusters, u32 threads, u32) {
        return threads / WARP * EXCHANGE + OwnedSums<D, L>::floats(clusters, threads, COPIES);
    }
    GALATEA_INLINE QuadFeatureSums(float* memory, u32 clusters, u32)
        : exchange(memory + warp() * EXCHANGE), sums(memory + warps() * EXCHANGE, clusters, COPIES, lane() / QUAD) {}
    // Warp scope: all lanes call.
    template <u32 P, u32 T> GALATEA_INLINE void add(const QuadPoints<D, P, T>& points, const u32 (&label)[P]) {
        count_quads(points, label, [&](u32 cluster) { sums.count(cluster); });
        if constexpr (L == QUAD) {
#pragma unroll
            for (u32 p = 0; p < P; ++p)
                if (points.whole || points.exists(p)) own(points, label[p], p);
        } else {
#pragma unroll
            for (u32 i = 0; i < P / 4; ++i) change(points, label, i);
        }
    }
    // Beyond the last feature a lane adds zeros to words of its own.
    template <u32 P, u32 T>
    GALATEA_INLINE void own(const QuadPoints<D, P, T>& points, u32 cluster, u32 p) {
        float values[OwnedSums<D, L>::F];
#pragma unroll
        for (u32 r = 0; r < OwnedSums<D, L>::F; ++r) values[r] = points.x[r][p];
        sums.add(cluster, values);
    }
    template <u32 P, u32 T>
    GALATEA_INLINE void change(const QuadPoints<D, P, T>& points, const u32 (&label)[P], u32 i) {
        float4* const tile = reinterpret_cast<float4*>(exchange);
        uint4* const labels = reinterpret_cast<uint4*>(exchange + TILE);
        const u32 g = lane() / QUAD, t = lane() % QUAD;
        // Who still reads the tile before.
        __syncwarp();
#pragma unroll
        for (u32 r = 0; r < QuadPoints<D, P, T>::F; ++r) {
            const u32 f = r * QUAD + t;
            const float(&x)[P] = points.x[r];
            tile[f * 8 + (g ^ f % 8)] = make_float4(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]);
        }
        if (t == 0) {
            const auto of = [&](u32 p) { return points.whole || points.exists(p) ? label[p] : NONE; };
            labels[g] = make_uint4(of(4 * i), of(4 * i + 1), of(4 * i + 2), of(4 * i + 3));
        }
        __syncwarp();
        const u32 f = lane() % L, group = lane() / L;
        if (D == L || f < D) {
#pragma unroll 2
            for (u32 j = 0; j < 8 / S; ++j) {
                const u32 q = j * S + group;
                const float4 four = tile[f * 8 + (q ^ f % 8)];
                const uint4 of = labels[q];
                if (points.whole) {
                    sums.add(of.x, 0, four.x);
                    sums.add(of.y, 0, four.y);
                    sums.add(of.z, 0, four.z);
                    sums.add(of.w, 0, four.w);
                } else {
                    if (of.x != NONE) sums.add(of.x, 0, four.x);
                    if (of.y != NONE) sums.add(of.y, 0, four.y);
                    if (of.z != NONE) sums.add(of.z, 0, four.z);
                    if (of.w != NONE) sums.add(of.w, 0, four.w);
                }
            }
        }
    }
    GALATEA_INLINE void merge(double* partials) { sums.merge(partials); }
};

template <u32 D> struct QuadSharedSums {
    SharedSums<D> sums;
    u32 copy;
    GALATEA_INLINE static u32 floats(u32 clusters, u32 threads, u32 copies) {
        return SharedSums<D>::floats(clusters, threads, copies);
    }
    GALATEA_INLINE QuadSharedSums(float* memory, u32 clusters, u32 copies)
        : sums(memory, clusters, copies), copy(lane() / QUAD & (copies - 1)) {}
    template <u32 P, u32 T> GALATEA_INLINE void add(const QuadPoints<D, P, T>& points, const u32 (&label)[P]) {
        count_quads(points, label, [&](u32 cluster) { atomicAdd(sums.mass(cluster) + copy, 1u); });
        add_quads(points, label, [&](u32 cluster, u32 feature, float value) {
            atomicAdd(sums.word(cluster, feature) + copy, value);
        });
    }
    GALATEA_INLINE void merge(double* partials) { sums.merge(partials); }
};

template <u32 D> struct QuadGlobalSums {
    double* partials;
    u32 clusters;
    GALATEA_INLINE QuadGlobalSums(double* partials, u32 clusters) : partials(partials), clusters(clusters) {}
    template <u32 P, u32 T> GALATEA_INLINE void add(const QuadPoints<D, P, T>& points, const u32 (&label)[P]) {
        count_quads(points, label, [&](u32 cluster) { atomicAdd(partials + clusters * D + cluster, 1.0); });
        add_quads(points, label, [&](u32 cluster, u32 feature, float value) {
            atomicAdd(partials + cluster * D + feature, double(value));
        });
    }
    GALATEA_INLINE void merge(double*) {}
};

}  // namespace galatea
