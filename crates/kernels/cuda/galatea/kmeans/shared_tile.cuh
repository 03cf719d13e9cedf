// Block scope: points of more features than registers hold, in the layout of the matrix units. A tile of the
// block's points is in shared memory, from which scores and sums load them: a pass reads each value from
// device memory once, and only the barrier before the tile waits for it (thesis §5.3).
//
// Copies overlap with computation: with those of the block's next tile if there are two buffers, and with
// those of other blocks of the multiprocessor.
//
// A row is a feature, in pieces of 4 points, 16 bytes. Lanes form 8 quads of 4; a quad has 4 consecutive
// points, and its lane t their features t, t + 4, .... Piece q of feature f is at column q ^ turn(f), so that
// the 8 lanes of each quarter of a 16-byte access use all 32 banks, whether they belong to two quads or to 8
// consecutive features.
//
// With few points per block, several of its warps have the same points, each with a part of the centroids.
//
// shared memory of n points, bytes: 4 n d per buffer
#pragma once

#include "galatea/kmeans/quad_points.cuh"
#include "galatea/link.cuh"

namespace galatea {

// A thread's position in the tile; C warps have the same points.
template <u32 C> struct SharedTileLane {
    float* buffers;
    u32 quad;   // of the tile
    u32 t;
    u32 share;  // of the warp among those with the same points
    GALATEA_INLINE explicit SharedTileLane(float* memory)
        : buffers(memory), quad(kept(warp() / C * 8 + lane() / QUAD)), t(kept(lane() % QUAD)), share(kept(warp() % C)) {}
};

// A tile of N points in one of B buffers.
template <u32 D, u32 N, u32 B, u32 C> struct SharedTile {
    static constexpr u32 LABELS = 1;
    static constexpr u32 FLOATS = B * D * N;
    static constexpr bool SCALED = false;
    static constexpr u32 PIECES = N / 4;
    static_assert(PIECES % 8 == 0, "whole turns of pieces");
    using Lane = SharedTileLane<C>;
    const float* rows;
    u32 live;  // number of points that exist
    u32 quad;
    u32 t;
    u32 share;
    u32 buffer = 0;
    GALATEA_INLINE static u32 tile_points() { return N; }
    GALATEA_INLINE static u32 turn(u32 feature) { return feature % 4 * 2 + feature / 4 % 2; }
    // Block scope: starts copies. The buffer must no longer be in use.
    GALATEA_INLINE void fetch(const TileWalk& walk, const Lane& own) {
        const PointChunk& chunk = walk.chunk;
        const u32 first = walk.tile * N, left = first < chunk.count ? chunk.count - first : 0;
        live = left < N ? left : N;
        quad = own.quad;
        t = own.t;
        share = own.share;
        if constexpr (B > 1) buffer ^= 1;
        float* const to = own.buffers + buffer * (D * N);
        rows = to;
        const float* const from = chunk.data + first;
        const u32 pieces = (live + 3) / 4;
        // A thread copies the same piece of every 4 C-th row.
        const u32 q = threadIdx.x % PIECES;
        if (q >= pieces) return;
#pragma unroll 4
        for (u32 f = threadIdx.x / PIECES; f < D; f += 4 * C)
            start_copy16(to + f * N + 4 * (q ^ turn(f)), from + u64(f) * chunk.stride + 4 * q);
    }
    // Block scope: waits for the copies of all threads.
    template <class Centroids> GALATEA_INLINE void place(const Centroids&) {
        finish_copies();
        __syncthreads();
    }
    GALATEA_INLINE static bool any() { return true; }
    GALATEA_INLINE u32 tile_live() const { return live; }
    // Thread scope: values of a feature of the four points that start at a position.
    GALATEA_INLINE void load_four(u32 feature, u32 position, float (&x)[4]) const {
        const float4 four =
            *reinterpret_cast<const float4*>(rows + feature * N + 4 * (position / 4 ^ turn(feature)));
        x[0] = four.x;
        x[1] = four.y;
        x[2] = four.z;
        x[3] = four.w;
    }
    // Warp scope: calls use(label, position in the tile, whether this is the first of four points and two of
    // them have the same label) for the point of this lane's label, in one of the warps that share it.
    template <class Use> GALATEA_INLINE void each_position(const u32 (&label)[1], Use use) const {
        const u32 next = __shfl_xor_sync(0xffffffffu, label[0], 1), two = __shfl_xor_sync(0xffffffffu, label[0], 2),
                  three = __shfl_xor_sync(0xffffffffu, next, 2);
        const u32 repeats =
            __ballot_sync(0xffffffffu, label[0] == next || label[0] == two || label[0] == three);
        const u32 own = 4 * quad + t;
        if (share == 0 && own < live) use(label[0], own, t == 0 && (repeats >> (lane() & ~3u) & 15) != 0);
    }
    // Warp scope: calls add(label, feature, value) for a share of the features of the quad's points, relative
    // to the origin, count(label) for the point of this lane's label.
    template <class Add, class Count>
    GALATEA_INLINE void each(const u32 (&label)[1], const float* origin, Add add, Count count) const {
        u32 of[4];
#pragma unroll
        for (u32 p = 0; p < 4; ++p) of[p] = of_quad(label[0], p);
#pragma unroll 1
        for (u32 f = t + QUAD * share; f < D; f += QUAD * C) {
            const float zero = __ldcg(origin + f);
            float x[4];
            load_four(f, 4 * quad, x);
#pragma unroll
            for (u32 p = 0; p < 4; ++p)
                if (4 * quad + p < live) add(of[p], f, x[p] - zero);
        }
        each_position(label, [&](u32 own, u32, bool) { count(own); });
        // After the barrier, the tile is no longer read.
        __syncthreads();
    }
};

}  // namespace galatea
