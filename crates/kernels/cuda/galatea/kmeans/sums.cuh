// Block scope: feature sums and masses of clusters, by five ways of replicating accumulators (thesis §5.2).
//
//     way        copies                       an update of D features       shared memory of t threads, bytes
//     registers  one a thread, in registers   K (D + 1) predicated adds     none but for merging
//     private    one a thread: cluster merge  load, D adds, store           4 t k (D + 1)
//     features   one a group of L lanes,      load, add, store a step of    t/32 (128 k ceil(D/L) + 512 (L + 1))
//                each owns features           4/S points of S groups        + 4 k copies
//     shared     `copies` a block             D + 1 atomics                 4 k (D + 1) copies
//     global     `slots` in device memory     D + 1 atomics                 none
//
// private is the thesis' Cluster Merge with Partitioned Private (KM-4, KM-10), features its Partitioned
// Features with Partitioned Local (KM-5, KM-9), with a warp in place of a block: labels and points change
// lanes behind a warp barrier. Words of different lanes are in different banks in all of them but shared.
// Sums are of floats relative to the origin; after a bounded number of points they are added, as doubles, to
// the partials in device memory.
//
// Each way is a type with: floats(k, threads, copies), its shared memory; the constructor, which clears; add,
// for P points a thread of which `live` exist; merge, for all threads of the block, which adds to the
// partials and clears. Barriers are inside merge; the caller has one between construction and add.
#pragma once

#include "galatea/block.cuh"
#include "galatea/kmeans/points.cuh"

namespace galatea {

// Adds to partials, where another block of the slot may do the same.
GALATEA_INLINE void add_partial(double* partial, double value) {
    if (value != 0.0) atomicAdd(partial, value);
}

// Clears words of shared memory.
GALATEA_INLINE void clear(float* words, u32 count) {
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) words[i] = 0.0f;
}

template <u32 K, u32 D> struct RegisterSums {
    float sum[K][D];
    u32 mass[K];
    float* scratch;
    GALATEA_INLINE static u32 floats(u32, u32 threads, u32) { return threads / WARP * K * (D + 1); }
    GALATEA_INLINE RegisterSums(float* memory, u32, u32) : scratch(memory) { reset(); }
    GALATEA_INLINE void reset() {
#pragma unroll
        for (u32 c = 0; c < K; ++c) {
            mass[c] = 0;
#pragma unroll
            for (u32 f = 0; f < D; ++f) sum[c][f] = 0.0f;
        }
    }
    template <u32 P>
    GALATEA_INLINE void add(const float (&x)[D][P], const u32 (&label)[P], u32 live) {
#pragma unroll
        for (u32 p = 0; p < P; ++p) {
            const u32 own = p < live ? label[p] : K;
#pragma unroll
            for (u32 c = 0; c < K; ++c) {
                if (own == c) {
                    mass[c] += 1;
#pragma unroll
                    for (u32 f = 0; f < D; ++f) sum[c][f] += x[f][p];
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
            // Below 2^24 points between merges, a mass is exact as a float.
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
    GALATEA_INLINE static u32 floats(u32 clusters, u32 threads, u32) { return clusters * (D + 1) * threads; }
    GALATEA_INLINE PrivateSums(float* memory, u32 clusters, u32)
        : sums(reinterpret_cast<Piece*>(memory)), masses(reinterpret_cast<u32*>(memory + clusters * D * blockDim.x)),
          clusters(clusters) {
        clear(memory, floats(clusters, blockDim.x, 1));
    }
    template <u32 P>
    GALATEA_INLINE void add(const float (&x)[D][P], const u32 (&label)[P], u32 live) {
#pragma unroll
        for (u32 p = 0; p < P; ++p) {
            if (p < live) {
                Piece* const own = sums + label[p] * (Q * blockDim.x) + threadIdx.x;
#pragma unroll
                for (u32 q = 0; q < Q; ++q) {
                    Piece piece = own[q * blockDim.x];
#pragma unroll
                    for (u32 v = 0; v < V; ++v) piece.item[v] += x[q * V + v][p];
                    own[q * blockDim.x] = piece;
                }
                masses[label[p] * blockDim.x + threadIdx.x] += 1;
            }
        }
    }
    // A warp adds up a piece of all threads, so that its lanes read different banks.
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

// Rows of a cluster are an odd number, so that clusters begin in different banks where there are fewer copies
// than banks: masses are the last row of D even ones, and apart from D odd ones.
template <u32 D> struct SharedSums {
    static constexpr u32 ROWS = D % 2 == 0 ? D + 1 : D;
    float* sums;  // [cluster][row][copy]
    u32* masses;  // of copy 0 and cluster 0
    u32 clusters;
    u32 copies;
    GALATEA_INLINE static u32 floats(u32 clusters, u32, u32 copies) { return clusters * (D + 1) * copies; }
    GALATEA_INLINE SharedSums(float* memory, u32 clusters, u32 copies)
        : sums(memory), masses(reinterpret_cast<u32*>(memory + (D % 2 == 0 ? D : clusters * D) * copies)),
          clusters(clusters), copies(copies) {
        clear(memory, floats(clusters, 0, copies));
    }
    // Copies of a feature of a cluster, and of its mass.
    GALATEA_INLINE float* word(u32 cluster, u32 feature) const { return sums + (cluster * ROWS + feature) * copies; }
    GALATEA_INLINE u32* mass(u32 cluster) const { return masses + cluster * (D % 2 == 0 ? ROWS : 1) * copies; }
    template <u32 P>
    GALATEA_INLINE void add(const float (&x)[D][P], const u32 (&label)[P], u32 live) {
        const u32 copy = threadIdx.x & (copies - 1);
#pragma unroll
        for (u32 p = 0; p < P; ++p) {
            if (p < live) {
#pragma unroll
                for (u32 f = 0; f < D; ++f) atomicAdd(word(label[p], f) + copy, x[f][p]);
                atomicAdd(mass(label[p]) + copy, 1u);
            }
        }
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
            add_partial(partials + i, total);
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
    double* partials;
    u32 clusters;
    GALATEA_INLINE static u32 floats(u32, u32, u32) { return 0; }
    GALATEA_INLINE GlobalSums(double* partials, u32 clusters) : partials(partials), clusters(clusters) {}
    template <u32 P>
    GALATEA_INLINE void add(const float (&x)[D][P], const u32 (&label)[P], u32 live) {
#pragma unroll
        for (u32 p = 0; p < P; ++p) {
            if (p < live) {
#pragma unroll
                for (u32 f = 0; f < D; ++f) atomicAdd(partials + label[p] * D + f, double(x[f][p]));
                atomicAdd(partials + clusters * D + label[p], 1.0);
            }
        }
    }
    GALATEA_INLINE void merge(double*) {}
};

// No sums: for passes that only label.
template <u32 D> struct NoSums {
    GALATEA_INLINE static u32 floats(u32, u32, u32) { return 0; }
    template <u32 P> GALATEA_INLINE void add(const float (&)[D][P], const u32 (&)[P], u32) {}
    GALATEA_INLINE void merge(double*) {}
};

}  // namespace galatea
