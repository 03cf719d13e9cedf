// Warp scope: Partitioned Features (thesis §5.2.1) with a warp in place of a thread block.
//
// The warp is S groups of L lanes, L the least power of two that is not less than the number of features, at
// most 16. Lane l of a group owns features l, l + L, ...: it alone adds them, for the points of its group, so
// no atomics are needed. Points are in registers by point; they are transposed to by feature through a tile
// in shared memory, L features at a time, in 16-byte pieces of 4 points each:
//
//     write   lane t, feature r:  piece (r, t)           read   lane (s, l), step j:  piece (l, jS + s), and the 4 labels
//
// Piece (r, t) is at column t ^ skew(r), so that the 8 lanes of each quarter of a 16-byte access use all 32
// banks in both directions. Accumulators are at word (cluster * F + round) * 32 + lane: each in its lane's
// own bank.
//
// Masses are counted by the threads that hold the points, by native integer atomics on copies in the block
// (Partitioned Local, §5.2.2).
#pragma once

#include "galatea/kmeans/sums.cuh"

namespace galatea {

// Accumulators of a warp in which lane l owns features l % L, l % L + L, ... of the points of its group l /
// L, and masses that the threads of a block share. Spare: cluster k exists, too, and is never read. N: number
// of sums that a lane has for a cluster's feature, so that additions of N points do not wait for each other.
template <u32 D, u32 L, bool Spare = false, u32 N = 1> struct OwnedSums {
    static constexpr u32 F = (D + L - 1) / L;
    static constexpr u32 ROUNDS = N * F;
    float* all;       // [warp][cluster][sum][round][lane]
    SharedFloats own;  // from this lane's accumulator of cluster 0 and round 0 on
    u32* masses;      // [cluster][copy]
    SharedFloats counts;  // from this thread's copy of the mass of cluster 0 on
    u32 clusters;
    u32 copies;
    double factor;
    // `copy`: the copy of the masses that this thread adds to.
    GALATEA_INLINE OwnedSums(const SumsPlace& place, float* memory, u32 copies, u32 copy)
        : all(memory), own(memory + warp() * words(place.clusters) + lane()),
          masses(reinterpret_cast<u32*>(memory + warps() * words(place.clusters))),
          counts(memory + warps() * words(place.clusters) + (copy & (copies - 1))), clusters(place.clusters),
          copies(copies), factor(place.factor) {
        clear(memory, warps() * words(clusters) + (clusters + Spare) * copies);
    }
    // Words of a warp.
    GALATEA_INLINE static u32 words(u32 clusters) { return (clusters + Spare) * (ROUNDS * WARP); }
    // Offset of a lane's accumulators of a cluster, the same for all lanes.
    GALATEA_INLINE static u32 place_of(u32 cluster) { return cluster * (ROUNDS * WARP); }
    // Thread scope: adds a value of this lane's feature of a round.
    GALATEA_INLINE void add(u32 place, u32 round, float value) {
        const u32 word = place + round * WARP;
        own.store(word, own.load(word) + value);
    }
    // Thread scope: adds values of this lane's features of all rounds, of N points, waiting for the sums only
    // once.
    GALATEA_INLINE void add(const u32 (&place)[N], const float (&values)[N][F]) {
        float sums[N][F];
#pragma unroll
        for (u32 n = 0; n < N; ++n)
#pragma unroll
            for (u32 round = 0; round < F; ++round) sums[n][round] = own.load(place[n] + (n * F + round) * WARP);
#pragma unroll
        for (u32 n = 0; n < N; ++n)
#pragma unroll
            for (u32 round = 0; round < F; ++round)
                own.store(place[n] + (n * F + round) * WARP, sums[n][round] + values[n][round]);
    }
    // Thread scope: counts a point, by one of the threads that hold it.
    GALATEA_INLINE void count(u32 cluster) { counts.increment(cluster * copies); }
    // Block scope. Adds to the partials, and clears the sums.
    GALATEA_INLINE void merge(double* partials) {
        __syncthreads();
        // Work is distributed to whole warps: a warp processes the words of a cluster's round, of all warps.
        for (u32 i = warp(); i < clusters * F; i += warps()) {
            double total = 0.0;
            float* const first = all + (i / F * ROUNDS + i % F) * WARP + lane();
            for (u32 w = 0; w < warps(); ++w) {
#pragma unroll
                for (u32 n = 0; n < N; ++n) {
                    float& word = first[w * words(clusters) + n * (F * WARP)];
                    total += word;
                    word = 0.0f;
                }
            }
#pragma unroll
            for (u32 distance = WARP / 2; distance >= L; distance /= 2)
                total += __shfl_down_sync(0xffffffffu, total, distance);
            const u32 feature = i % F * L + lane();
            if (lane() < L && feature < D) add_partial(partials + i / F * D + feature, total * factor);
        }
        for (u32 c = threadIdx.x; c < clusters; c += blockDim.x) {
            u32 total = 0;
            for (u32 copy = 0; copy < copies; ++copy) {
                total += masses[c * copies + copy];
                masses[c * copies + copy] = 0;
            }
            add_partial(partials + clusters * D + c, total);
        }
        __syncthreads();
    }
};

template <u32 D> struct FeatureSums {
    static constexpr u32 L = D <= 1 ? 1 : D <= 2 ? 2 : D <= 4 ? 4 : D <= 8 ? 8 : 16;
    static constexpr u32 S = WARP / L;
    static constexpr u32 F = (D + L - 1) / L;
    static constexpr u32 SKEW = L >= 8 ? 1 : 8 / L;
    // Floats of a warp's tile and labels.
    static constexpr u32 TILE = L * WARP * 4;
    static constexpr u32 EXCHANGE = TILE + WARP * 4;
    float* exchange;  // of this warp
    OwnedSums<D, L> sums;
    GALATEA_INLINE explicit FeatureSums(const SumsPlace& place)
        : exchange(place.shared + warp() * EXCHANGE),
          sums(place, place.shared + warps() * EXCHANGE, place.copies, warp()) {}
    // Warp scope: called by all lanes. P must be 4: a piece.
    template <u32 P> GALATEA_INLINE void add(const TilePoints<D, P>& points, const u32 (&label)[P]) {
        const u32 live = points.live;
        static_assert(P == 4, "a thread's points of a feature are one 16-byte piece");
        constexpr u32 NONE = 0xffffffffu;
        uint4* const tile = reinterpret_cast<uint4*>(exchange);
        uint4* const labels = reinterpret_cast<uint4*>(exchange + TILE);
#pragma unroll
        for (u32 p = 0; p < P; ++p)
            if (p < live) sums.count(label[p]);
        labels[lane()] = make_uint4(0 < live ? label[0] : NONE, 1 < live ? label[1] : NONE, 2 < live ? label[2] : NONE,
                                    3 < live ? label[3] : NONE);
        const u32 group = lane() / L, feature = lane() % L;
#pragma unroll
        for (u32 round = 0; round < F; ++round) {
#pragma unroll
            for (u32 r = 0; r < L; ++r) {
                if (round * L + r < D) {
                    const float(&row)[P] = points.x[round * L + r];
                    tile[r * WARP + (lane() ^ (r * SKEW % 8))] = make_uint4(
                        __float_as_uint(row[0]), __float_as_uint(row[1]), __float_as_uint(row[2]), __float_as_uint(row[3]));
                }
            }
            __syncwarp();
            if (round * L + feature < D) {
#pragma unroll 2
                for (u32 j = 0; j < L; ++j) {
                    const u32 t = j * S + group;
                    const uint4 four = tile[feature * WARP + (t ^ (feature * SKEW % 8))];
                    const uint4 of = labels[t];
                    if (of.x != NONE) sums.add(sums.place_of(of.x), round, __uint_as_float(four.x));
                    if (of.y != NONE) sums.add(sums.place_of(of.y), round, __uint_as_float(four.y));
                    if (of.z != NONE) sums.add(sums.place_of(of.z), round, __uint_as_float(four.z));
                    if (of.w != NONE) sums.add(sums.place_of(of.w), round, __uint_as_float(four.w));
                }
            }
            __syncwarp();
        }
    }
    GALATEA_INLINE void merge(double* partials) { sums.merge(partials); }
};

}  // namespace galatea
