// Block scope: feature sums and masses of clusters, with five methods of replicating accumulators (thesis
// §5.2).
//
//     method     copies                       an update of D features       shared memory of t threads, bytes
//     registers  one a thread, in registers   K (D + 1) predicated adds     only for merging
//     private    one a thread: cluster merge  load, D adds, store           4 t k (D + 1)
//     features   one a group of L lanes,      load, add, store a step of    t/32 (128 k ceil(D/L) + 512 (L + 1))
//                each owns features           4/S points of S groups        + 4 k copies
//     shared     `copies` a block             D + 1 atomics                 4 k (D + 1) copies
//     global     `slots` in device memory     D + 1 atomics                 none
//
// private is the thesis' Cluster Merge with Partitioned Private (§5.2), features its Partitioned Features
// with Partitioned Local, with a warp in place of a block: labels and points are exchanged between lanes
// after a warp barrier. Words of different lanes are in different banks in all methods but shared. Sums are
// of floats relative to the origin; after a bounded number of points they are added, as doubles, to the
// partials in device memory.
//
// Each method is a type with: the constructor, which clears; add, for the points of a tile and the labels of
// the thread; merge, for all threads of the block, which adds to the partials and clears. Barriers are inside
// merge; the caller has one between construction and add. shared and global support points of all kinds,
// which define the values and labels of a thread (each), and the copy that it adds to. Host twin of the
// required shared memory: PassShape::shared_bytes.
#pragma once

#include "galatea/block.cuh"
#include "galatea/kmeans/points.cuh"

namespace galatea {

// Adds to partials; another block of the slot may do so concurrently.
GALATEA_INLINE void add_partial(double* partial, double value) {
    if (value != 0.0) atomicAdd(partial, value);
}

// Clears words of shared memory.
GALATEA_INLINE void clear(float* words, u32 count) {
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) words[i] = 0.0f;
}

// Memory of the sums of a block.
struct SumsPlace {
    float* shared;        // memory of the block
    double* partials;     // of its slot
    const float* origin;  // for points that are not in registers
    u32 clusters;
    u32 copies;
    double factor;  // applied to sums when added to partials: points may be scaled
};

template <u32 K, u32 D> struct RegisterSums {
    float sum[K][D];
    u32 mass[K];
    float* scratch;  // [warp][word]
    GALATEA_INLINE explicit RegisterSums(const SumsPlace& place) : scratch(place.shared) { reset(); }
    GALATEA_INLINE void reset() {
#pragma unroll
        for (u32 c = 0; c < K; ++c) {
            mass[c] = 0;
#pragma unroll
            for (u32 f = 0; f < D; ++f) sum[c][f] = 0.0f;
        }
    }
    template <u32 P> GALATEA_INLINE void add(const TilePoints<D, P>& points, const u32 (&label)[P]) {
#pragma unroll
        for (u32 p = 0; p < P; ++p) {
            const u32 own = p < points.live ? label[p] : K;
#pragma unroll
            for (u32 c = 0; c < K; ++c) {
                if (own == c) {
                    mass[c] += 1;
#pragma unroll
                    for (u32 f = 0; f < D; ++f) sum[c][f] += points.x[f][p];
                }
            }
        }
    }
    GALATEA_INLINE void merge(double* partials) {
        constexpr u32 WORDS = K * (D + 1);
#pragma unroll
        for (u32 c = 0; c < K; ++c) {
#pragma unroll
            for (u32 f = 0; f < D; ++f) {
                const float total = warp_reduce(sum[c][f], Sum{});
                if (lane() == 0) scratch[warp() * WORDS + c * D + f] = total;
            }
            // With less than 2^24 points between merges, a mass is exact as a float.
            const float total = warp_reduce(float(mass[c]), Sum{});
            if (lane() == 0) scratch[warp() * WORDS + K * D + c] = total;
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < WORDS; i += blockDim.x) {
            double total = 0.0;
            for (u32 w = 0; w < warps(); ++w) total += scratch[w * WORDS + i];
            add_partial(partials + i, total);
        }
        __syncthreads();
        reset();
    }
};

template <u32 D> struct PrivateSums {
    static constexpr u32 V = D % 4 == 0 ? 4 : D % 2 == 0 ? 2 : 1;
    static constexpr u32 Q = D / V;
    using Piece = Vector<float, V>;
    Piece* sums;  // [cluster][q][thread]
    u32* masses;  // [cluster][thread]
    u32 clusters;
    GALATEA_INLINE explicit PrivateSums(const SumsPlace& place)
        : sums(reinterpret_cast<Piece*>(place.shared)),
          masses(reinterpret_cast<u32*>(place.shared + place.clusters * D * blockDim.x)), clusters(place.clusters) {
        clear(place.shared, clusters * (D + 1) * blockDim.x);
    }
    template <u32 P> GALATEA_INLINE void add(const TilePoints<D, P>& points, const u32 (&label)[P]) {
#pragma unroll
        for (u32 p = 0; p < P; ++p) {
            if (p < points.live) {
                Piece* const own = sums + label[p] * (Q * blockDim.x) + threadIdx.x;
#pragma unroll
                for (u32 q = 0; q < Q; ++q) {
                    Piece piece = own[q * blockDim.x];
#pragma unroll
                    for (u32 v = 0; v < V; ++v) piece.item[v] += points.x[q * V + v][p];
                    own[q * blockDim.x] = piece;
                }
                masses[label[p] * blockDim.x + threadIdx.x] += 1;
            }
        }
    }
    // A warp sums a piece over all threads, so that its lanes read different banks.
    GALATEA_INLINE void merge(double* partials) {
        __syncthreads();
        for (u32 i = warp(); i < clusters * Q; i += warps()) {
            double total[V];
#pragma unroll
            for (u32 v = 0; v < V; ++v) total[v] = 0.0;
            for (u32 t = lane(); t < blockDim.x; t += WARP) {
                const Piece piece = sums[i * blockDim.x + t];
                sums[i * blockDim.x + t] = Piece{};
#pragma unroll
                for (u32 v = 0; v < V; ++v) total[v] += piece.item[v];
            }
#pragma unroll
            for (u32 v = 0; v < V; ++v) {
                const double all = warp_reduce(total[v], Sum{});
                if (lane() == 0) add_partial(partials + i * V + v, all);
            }
        }
        for (u32 c = warp(); c < clusters; c += warps()) {
            u32 total = 0;
            for (u32 t = lane(); t < blockDim.x; t += WARP) {
                total += masses[c * blockDim.x + t];
                masses[c * blockDim.x + t] = 0;
            }
            total = warp_reduce(total, Sum{});
            if (lane() == 0) add_partial(partials + clusters * D + c, total);
        }
        __syncthreads();
    }
};

// A cluster has an odd number of rows, so that clusters begin in different banks if there are fewer copies
// than banks: masses are the last row if D is even, and separate if D is odd.
template <u32 D> struct SharedSums {
    static constexpr u32 ROWS = D % 2 == 0 ? D + 1 : D;
    float* sums;  // [cluster][row][copy]
    u32* masses;  // of copy 0 and cluster 0
    u32 clusters;
    u32 copies;
    double factor;
    GALATEA_INLINE explicit SharedSums(const SumsPlace& place)
        : sums(place.shared), masses(reinterpret_cast<u32*>(
                                  place.shared + (D % 2 == 0 ? D : place.clusters * D) * place.copies)),
          clusters(place.clusters), copies(place.copies), factor(place.factor) {
        clear(place.shared, clusters * (D + 1) * copies);
    }
    // Copies of a feature of a cluster, and of its mass.
    GALATEA_INLINE float* word(u32 cluster, u32 feature) const { return sums + (cluster * ROWS + feature) * copies; }
    GALATEA_INLINE u32* mass(u32 cluster) const { return masses + cluster * (D % 2 == 0 ? ROWS : 1) * copies; }
    template <class Points> GALATEA_INLINE void add(const Points& points, const u32 (&label)[Points::LABELS]) {
        const u32 copy = Points::copy() & (copies - 1);
        points.each(
            label, nullptr, [&](u32 of, u32 f, float value) { atomicAdd(word(of, f) + copy, value); },
            [&](u32 of) { atomicAdd(mass(of) + copy, 1u); });
    }
    GALATEA_INLINE void merge(double* partials) {
        __syncthreads();
        for (u32 i = threadIdx.x; i < clusters * D; i += blockDim.x) {
            float* const own = word(i / D, i % D);
            double total = 0.0;
            for (u32 copy = 0; copy < copies; ++copy) {
                float& word = own[(copy + threadIdx.x) & (copies - 1)];
                total += word;
                word = 0.0f;
            }
            add_partial(partials + i, total * factor);
        }
        for (u32 c = threadIdx.x; c < clusters; c += blockDim.x) {
            u32 total = 0;
            for (u32 copy = 0; copy < copies; ++copy) {
                u32& word = mass(c)[(copy + threadIdx.x) & (copies - 1)];
                total += word;
                word = 0;
            }
            add_partial(partials + clusters * D + c, total);
        }
        __syncthreads();
    }
};

template <u32 D> struct GlobalSums {
    SumsPlace place;
    GALATEA_INLINE explicit GlobalSums(const SumsPlace& place) : place(place) {}
    template <class Points> GALATEA_INLINE void add(const Points& points, const u32 (&label)[Points::LABELS]) {
        points.each(
            label, place.origin,
            [&](u32 of, u32 f, float value) { atomicAdd(place.partials + u64(of) * D + f, value * place.factor); },
            [&](u32 of) { atomicAdd(place.partials + u64(place.clusters) * D + of, 1.0); });
    }
    GALATEA_INLINE void merge(double*) {}
};

// No sums: for passes that only label.
struct NoSums {
    GALATEA_INLINE explicit NoSums(const SumsPlace&) {}
    template <class Points> GALATEA_INLINE void add(const Points&, const u32 (&)[Points::LABELS]) {}
    GALATEA_INLINE void merge(double*) {}
};

}  // namespace galatea
