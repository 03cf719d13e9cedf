// Warp scope: points in the layout of the matrix units. Lanes form 8 quads of 4; lane t of a quad holds
// features t, t + 4, ... of the quad's points, 4 consecutive ones per load. The unit takes from this lane
// exactly the values of a point that the lane holds, as halves, so no value moves between lanes.
//
// A pass scales the points and makes them relative to the origin, in one multiply-add per value, so that
// their sums are multiplied by 1 / scale when they are merged. Of each four points of a quad, lane t holds
// the label of point t.
#pragma once

#include "galatea/kmeans/points.cuh"

namespace galatea {

constexpr u32 QUAD = 4;

// Warp scope. The best of the candidates that the lanes of a quad have for point t of four, on lane t: lanes
// exchange the points that other lanes end up with, so a lane compares three times instead of eight.
template <class V, class Exchange, class Better>
GALATEA_INLINE V quad_best(u32 t, const V (&each)[4], Exchange exchange, Better better) {
    const bool upper = t & 2, odd = t & 1;
    const V first = better(upper ? each[2] : each[0], exchange(upper ? each[0] : each[2], 2));
    const V second = better(upper ? each[3] : each[1], exchange(upper ? each[1] : each[3], 2));
    return better(odd ? second : first, exchange(odd ? first : second, 1));
}

// A thread's position among lanes, which passes keep: computed from its number each time, it would take a
// sixth of a tile's instructions.
struct QuadLane {
    u32 warp;
    u32 quad;
    u32 t;
    GALATEA_INLINE explicit QuadLane(float*)
        : warp(kept(threadIdx.x / WARP)), quad(kept(lane() / QUAD)), t(kept(lane() % QUAD)) {}
};

// Warp scope: the word of lane t of the quad.
GALATEA_INLINE u32 of_quad(u32 word, u32 t) { return __shfl_sync(0xffffffffu, word, t, QUAD); }

// A lane's values of the 8 P points of its warp, of T threads: features t, t + 4, ... of points 4 g to 4 g +
// 3 of each 32. Rows of chunks are whole runs of that length (STRIDE_POINTS), so a warp loads all of them if
// its first point exists; points that do not exist belong to cluster k, and its sums are never read.
template <u32 D, u32 P, u32 T> struct QuadPoints {
    static constexpr u32 F = (D + QUAD - 1) / QUAD;
    static constexpr u32 TILE = T / WARP * 8 * P;
    static constexpr u32 LABELS = P / QUAD;
    static constexpr u32 FLOATS = 0;
    static constexpr bool SCALED = true;
    static_assert(P % QUAD == 0 && 8 * P <= STRIDE_POINTS, "a warp's points are a run of a row");
    float x[F][P];
    u32 left;  // remaining points of the chunk from the lane's first on
    GALATEA_INLINE void fetch(const TileWalk& walk, const QuadLane& own) {
        const PointChunk& chunk = walk.chunk;
        const u32 run = walk.tile * TILE + own.warp * (8 * P), first = run + 4 * own.quad;
        left = first < chunk.count ? chunk.count - first : 0;
        const float* const from = chunk.data + u64(own.t) * chunk.stride + first;
#pragma unroll
        for (u32 r = 0; r < F; ++r) {
            const bool is = (D % QUAD == 0 || r * QUAD + own.t < D) && run < chunk.count;
#pragma unroll
            for (u32 i = 0; i < P / QUAD; ++i) {
                float four[4] = {0.0f, 0.0f, 0.0f, 0.0f};
                if (is) load_floats<4>(from + u64(r * QUAD) * chunk.stride + i * WARP, four);
#pragma unroll
                for (u32 e = 0; e < 4; ++e) x[r][4 * i + e] = four[e];
            }
        }
    }
    // Thread scope: scales the points and makes them relative to the origin.
    template <class Centroids> GALATEA_INLINE void place(const Centroids& centroids) {
#pragma unroll
        for (u32 r = 0; r < F; ++r)
#pragma unroll
            for (u32 p = 0; p < P; ++p) x[r][p] = fmaf(x[r][p], centroids.scale, centroids.shift[r]);
    }
    GALATEA_INLINE static bool any() { return true; }
    // Thread scope: whether point t of each four, number i, exists.
    GALATEA_INLINE bool exists(u32 i, u32 t) const { return i * WARP + t < left; }
    // The copy of accumulators that this thread adds to.
    GALATEA_INLINE static u32 copy() { return lane() / QUAD; }
    // Warp scope: calls add(label, feature, value) for the values that this lane holds, count(label) for the
    // points of its labels.
    template <class Add, class Count>
    GALATEA_INLINE void each(const u32 (&label)[LABELS], const float*, Add add, Count count) const {
        const u32 t = lane() % QUAD;
        // All labels are exchanged first, because atomics make lanes diverge.
        u32 of[P];
#pragma unroll
        for (u32 p = 0; p < P; ++p) of[p] = of_quad(label[p / QUAD], p % QUAD);
#pragma unroll
        for (u32 p = 0; p < P; ++p) {
            if (!exists(p / QUAD, p % QUAD)) continue;
#pragma unroll
            for (u32 r = 0; r < F; ++r)
                if (D % QUAD == 0 || r * QUAD + t < D) add(of[p], r * QUAD + t, x[r][p]);
            if (p % QUAD == t) count(of[p]);
        }
        __syncwarp();
    }
};

}  // namespace galatea
