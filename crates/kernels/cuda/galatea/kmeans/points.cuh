// Grid scope: how a pass of k-means walks its chunks, and how a thread loads its points.
//
// A chunk stores `count` points column by column (thesis §5.2.1): feature f of point p is at data[f * stride
// + p]. The stride is a multiple of STRIDE_POINTS points and chunks begin at multiples of 256 bytes, so that
// a thread's P consecutive points of a feature are one aligned vector load, and the loads of a thread stay
// inside the row if its first point exists.
#pragma once

#include "galatea/warp.cuh"

namespace galatea {

// Words of a chunk in the table: address of the points, address of the labels or null, count, stride. Host
// twin CHUNK_WORDS.
constexpr u32 KMEANS_CHUNK_WORDS = 4;

// Maximum number of features of a point held in registers. Host twin MOST_FEATURES.
constexpr u32 MOST_FEATURES = 32;
// Rows of a chunk are whole runs of this number of points. Host twin STRIDE_POINTS.
constexpr u32 STRIDE_POINTS = 128;

// State that threads keep to find their points, given the block's shared memory: nothing, except in
// kmeans/quad_points.cuh and kmeans/shared_tile.cuh.
struct NoLane {
    GALATEA_INLINE explicit NoLane(float*) {}
};

// A if the condition is true, else B.
template <bool Is, class A, class B> struct ChooseType { using Type = A; };
template <class A, class B> struct ChooseType<false, A, B> { using Type = B; };
template <bool Is, class A, class B> using Choose = typename ChooseType<Is, A, B>::Type;

// The integer type of a label of `Bytes` bytes.
template <u32 Bytes> struct Label;
template <> struct Label<1> { using Type = u8; };
template <> struct Label<2> { using Type = u16; };
template <> struct Label<4> { using Type = u32; };

// One chunk, as stored in the table.
struct PointChunk {
    const float* data;
    unsigned char* labels;
    u32 count;
    u32 stride;
    GALATEA_INLINE PointChunk() {}
    GALATEA_INLINE PointChunk(const u64* table, u32 chunk) {
        const u64* const words = table + u64(chunk) * KMEANS_CHUNK_WORDS;
        data = reinterpret_cast<const float*>(__ldg(words));
        labels = reinterpret_cast<unsigned char*>(__ldg(words + 1));
        count = u32(__ldg(words + 2));
        stride = u32(__ldg(words + 3));
    }
};

// The tiles of a block: tile blockIdx.x first, then every gridDim.x-th, with `per_chunk` tiles assumed for
// each chunk. The same in all threads of a block.
struct TileWalk {
    const u64* table;
    u32 number;  // of the chunk
    u32 tile;
    u32 chunks;
    u32 per_chunk;
    PointChunk chunk;  // reloaded if the chunk changes
    GALATEA_INLINE TileWalk(const u64* table, u32 chunks, u32 per_chunk)
        : table(table), number(blockIdx.x / per_chunk), tile(blockIdx.x % per_chunk), chunks(chunks),
          per_chunk(per_chunk) {
        if (more()) chunk = PointChunk(table, number);
    }
    GALATEA_INLINE bool more() const { return number < chunks; }
    GALATEA_INLINE void next() {
        tile += gridDim.x;
        if (tile < per_chunk) return;
        do {
            tile -= per_chunk;
            ++number;
        } while (tile >= per_chunk);
        if (more()) chunk = PointChunk(table, number);
    }
};

// Thread scope. Loads N consecutive floats through the read-only cache, N = 1, 2 or a multiple of 4; the
// source is aligned to the load.
template <u32 N> GALATEA_INLINE void load_floats(const float* source, float (&values)[N]) {
    if constexpr (N % 4 == 0) {
#pragma unroll
        for (u32 i = 0; i < N / 4; ++i) {
            const float4 four = __ldg(reinterpret_cast<const float4*>(source) + i);
            values[4 * i] = four.x;
            values[4 * i + 1] = four.y;
            values[4 * i + 2] = four.z;
            values[4 * i + 3] = four.w;
        }
    } else if constexpr (N == 2) {
        const float2 two = __ldg(reinterpret_cast<const float2*>(source));
        values[0] = two.x;
        values[1] = two.y;
    } else {
        static_assert(N == 1, "one vector load");
        values[0] = __ldg(source);
    }
}

// A thread's points of a tile, as stored in memory: `live` of P exist, from the chunk's point `first` on.
template <u32 D, u32 P> struct TilePoints {
    static constexpr u32 LABELS = P;
    static constexpr u32 FLOATS = 0;  // of shared memory
    static constexpr bool SCALED = false;
    float x[D][P];
    unsigned char* labels;
    u32 first;
    u32 live;
    // Thread scope. Starts to load the points of a tile, without waiting for them.
    GALATEA_INLINE void fetch(const TileWalk& walk, NoLane) {
        const PointChunk& chunk = walk.chunk;
        labels = chunk.labels;
        first = (walk.tile * blockDim.x + threadIdx.x) * P;
        live = first >= chunk.count ? 0 : chunk.count - first < P ? chunk.count - first : P;
        if (live != 0) {
#pragma unroll
            for (u32 f = 0; f < D; ++f) load_floats<P>(chunk.data + u64(f) * chunk.stride + first, x[f]);
        }
    }
    // Thread scope. Makes the points relative to the origin.
    template <class Centroids> GALATEA_INLINE void place(const Centroids& centroids) {
        if (live == 0) return;
#pragma unroll
        for (u32 f = 0; f < D; ++f) {
            const float zero = centroids.origin[f];
#pragma unroll
            for (u32 p = 0; p < P; ++p) x[f][p] -= zero;
        }
    }
    GALATEA_INLINE bool any() const { return live != 0; }
    // The copy of accumulators that this thread adds to.
    GALATEA_INLINE static u32 copy() { return threadIdx.x; }
    // Thread scope: calls add(label, feature, value) for each value, count(label) for each point.
    template <class Add, class Count>
    GALATEA_INLINE void each(const u32 (&label)[P], const float*, Add add, Count count) const {
#pragma unroll
        for (u32 p = 0; p < P; ++p) {
            if (p >= live) continue;
#pragma unroll
            for (u32 f = 0; f < D; ++f) add(label[p], f, x[f][p]);
            count(label[p]);
        }
    }
};

// Thread scope. Stores the first `live` of P labels from `first` on, in Bytes each.
template <u32 Bytes, u32 P>
GALATEA_INLINE void store_labels(unsigned char* labels, u32 first, const u32 (&label)[P], u32 live) {
    using T = typename Label<Bytes>::Type;
    T* const target = reinterpret_cast<T*>(labels) + first;
    if (live == P) {
        Vector<T, P> all;
#pragma unroll
        for (u32 p = 0; p < P; ++p) all.item[p] = T(label[p]);
        *reinterpret_cast<Vector<T, P>*>(target) = all;
    } else {
#pragma unroll
        for (u32 p = 0; p < P; ++p)
            if (p < live) target[p] = T(label[p]);
    }
}

// Thread scope. Loads the first `live` of P labels from `first` on.
template <u32 Bytes, u32 P>
GALATEA_INLINE void load_labels(const unsigned char* labels, u32 first, u32 (&label)[P], u32 live) {
    using T = typename Label<Bytes>::Type;
    const T* const source = reinterpret_cast<const T*>(labels) + first;
    if (live == P) {
        const Vector<T, P> all = *reinterpret_cast<const Vector<T, P>*>(source);
#pragma unroll
        for (u32 p = 0; p < P; ++p) label[p] = all.item[p];
    } else {
#pragma unroll
        for (u32 p = 0; p < P; ++p) label[p] = p < live ? source[p] : 0;
    }
}

}  // namespace galatea
