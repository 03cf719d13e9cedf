// Block scope: the nearest of k centroids, for points in registers.
//
// Because |x - c|^2 = |x|^2 - 2 (x·c - |c|^2 / 2), the nearest centroid has the greatest score x·c - |c|^2 /
// 2: d multiply-adds and one comparison per centroid. Points and centroids are relative to an origin at the
// centre of the data, which keeps the terms as small as the spread of the data, whatever its distance from
// zero; the error of a score is then below (d + 2) 2^-24 |x| |c|.
//
// A thread has P points, so that one load of a centroid, which all lanes share, serves 32 P points: for P = 4
// a fourth of an instruction per centroid and point. Distances are not written to memory.
//
// Comparisons run at half the rate of multiply-adds, so keeping label and score for each centroid (compare,
// two selects) costs as much as 6 of them. If there are many centroids, a thread compares the greater score
// of two, and keeps the index of the pair: 2 such instructions per centroid. The better of the two is then
// determined by recomputing the score of the first, which is bit-identical.
//
// Layout of the centroids, in device memory and in shared memory, k4 = k rounded up to a multiple of 4:
//     float origin[round4(d)], row[k4][d], norm[k4]
// norm is -|c|^2 / 2, and -infinity for the rows that pad the last group of four, which are zero otherwise.
#pragma once

#include "galatea/args/kmeans_pass.h"
#include "galatea/kmeans/points.cuh"

namespace galatea {

GALATEA_INLINE u32 round4(u32 number) { return (number + 3) & ~3u; }

// Paired: compares centroids in pairs.
template <u32 D, bool Paired = false> struct Centroids {
    const float* origin;
    const float* rows;
    const float* norms;
    u32 groups;

    // Floats of the layout above: a multiple of 4.
    GALATEA_INLINE static u32 floats(u32 clusters) { return (D + 3) / 4 * 4 + round4(clusters) * (D + 1); }

    GALATEA_INLINE Centroids(const float* memory, u32 clusters)
        : origin(memory), rows(memory + (D + 3) / 4 * 4), norms(rows + round4(clusters) * D),
          groups(round4(clusters) / 4) {}

    // Block scope: copies the centroids to shared memory; the caller's barrier follows.
    GALATEA_INLINE Centroids(const KmeansPassArguments& args, float* shared, NoLane) : Centroids(shared, args.clusters) {
        const u32 vectors = floats(args.clusters) / 4;
        for (u32 i = threadIdx.x; i < vectors; i += blockDim.x)
            reinterpret_cast<float4*>(shared)[i] = __ldcg(reinterpret_cast<const float4*>(args.centroids) + i);
    }

    // Computes the scores of a group of four, for P points: use(each, p, score), in the order of centroids.
    template <u32 P, class Use> GALATEA_INLINE void scores(const float (&x)[D][P], u32 group, Use use) const {
        const float4* const row = reinterpret_cast<const float4*>(rows) + group * D;
        const float4 norm = reinterpret_cast<const float4*>(norms)[group];
        float c[4 * D];
#pragma unroll
        for (u32 q = 0; q < D; ++q) {
            const float4 four = row[q];
            c[4 * q] = four.x;
            c[4 * q + 1] = four.y;
            c[4 * q + 2] = four.z;
            c[4 * q + 3] = four.w;
        }
        const float start[4] = {norm.x, norm.y, norm.z, norm.w};
#pragma unroll
        for (u32 each = 0; each < 4; ++each) {
#pragma unroll
            for (u32 p = 0; p < P; ++p) {
                float s = start[each];
#pragma unroll
                for (u32 f = 0; f < D; ++f) s = fmaf(x[f][p], c[each * D + f], s);
                use(each, p, s);
            }
        }
    }

    // Thread scope: the label of the greatest score of each point; among equal ones the least.
    template <u32 P> GALATEA_INLINE void nearest(const TilePoints<D, P>& points, u32 (&label)[P]) const {
        const float(&x)[D][P] = points.x;
        float best[P];
#pragma unroll
        for (u32 p = 0; p < P; ++p) {
            label[p] = 0;
            best[p] = __int_as_float(0xff800000);
        }
#pragma unroll 1
        for (u32 group = 0; group < groups; ++group) {
            if constexpr (Paired) {
                float first[P];
                scores<P>(x, group, [&](u32 each, u32 p, float s) {
                    if (each % 2 == 0) {
                        first[p] = s;
                        return;
                    }
                    const float most = fmaxf(first[p], s);
                    if (most > best[p]) label[p] = 4 * group + each - 1;
                    best[p] = fmaxf(best[p], most);
                });
            } else {
                scores<P>(x, group, [&](u32 each, u32 p, float s) {
                    if (s > best[p]) {
                        best[p] = s;
                        label[p] = 4 * group + each;
                    }
                });
            }
        }
        if constexpr (Paired) {
#pragma unroll
            for (u32 p = 0; p < P; ++p) {
                float s = norms[label[p]];
                float c[D];
                load_row(rows + label[p] * D, c);
#pragma unroll
                for (u32 f = 0; f < D; ++f) s = fmaf(x[f][p], c[f], s);
                if (s != best[p]) label[p] += 1;
            }
        }
    }

    // Thread scope. Loads a row, by vectors if rows are aligned to them.
    GALATEA_INLINE static void load_row(const float* row, float (&c)[D]) {
        if constexpr (D % 4 == 0) {
#pragma unroll
            for (u32 q = 0; q < D / 4; ++q) {
                const float4 four = reinterpret_cast<const float4*>(row)[q];
                c[4 * q] = four.x;
                c[4 * q + 1] = four.y;
                c[4 * q + 2] = four.z;
                c[4 * q + 3] = four.w;
            }
        } else {
#pragma unroll
            for (u32 f = 0; f < D; ++f) c[f] = row[f];
        }
    }

    // Thread scope: the sum of the squared distances of the points to the centroids of their labels, computed
    // from differences.
    template <u32 P> GALATEA_INLINE double distances(const TilePoints<D, P>& points, const u32 (&label)[P]) const {
        double total = 0.0;
#pragma unroll
        for (u32 p = 0; p < P; ++p) {
            if (p >= points.live) continue;
            float sum = 0.0f;
#pragma unroll
            for (u32 f = 0; f < D; ++f) {
                const float difference = points.x[f][p] - rows[label[p] * D + f];
                sum = fmaf(difference, difference, sum);
            }
            total += sum;
        }
        return total;
    }
};

}  // namespace galatea
