// Block scope: sums of points of more features than registers hold, for passes by lanes (kmeans/wide.cuh) and
// by matrix units (kmeans/quad_points.cuh): Partitioned Features (thesis §5.2.1).
//
// The block exchanges its labels behind one barrier; then its threads are `copies` groups, of which each
// takes a part of the tile's points. A thread of a group owns features, and alone adds them: nothing is
// atomic, and lanes have words of different banks. Masses are counted by the threads that know the labels, by
// integer atomics of the block.
//
//   shared memory of tiles of n points, bytes: 4 (groups k d + k + n)
#pragma once

#include "galatea/kmeans/sums.cuh"

namespace galatea {

template <u32 D, class Points> struct WideFeatureSums {
    u32* labels;  // [point of the tile]
    float* sums;  // [group][cluster][feature]
    u32* masses;  // [cluster]
    const float* origin;
    u32 clusters;
    u32 groups;
    GALATEA_INLINE explicit WideFeatureSums(const SumsPlace& place)
        : labels(reinterpret_cast<u32*>(place.shared)), sums(place.shared + Points::tile_points()),
          masses(reinterpret_cast<u32*>(sums + place.copies * place.clusters * D)), origin(place.origin),
          clusters(place.clusters), groups(place.copies) {
        clear(sums, groups * clusters * D + clusters);
    }
    // Block scope.
    GALATEA_INLINE void add(const Points& points, const u32 (&label)[Points::LABELS]) {
        const u32 tile = Points::tile_points();
        points.each_position(label, [&](u32 of, u32 position) {
            labels[position] = of;
            atomicAdd(masses + of, 1u);
        });
        __syncthreads();
        const u32 width = blockDim.x / groups, group = threadIdx.x / width, part = tile / groups;
        // A chunk of few points has fewer tiles than others.
        const u32 left = points.tile < points.points ? points.points - points.tile : 0;
        const u32 live = left < tile ? left : tile;
        const u32 end = (group + 1) * part < live ? (group + 1) * part : live;
        float* const own = sums + group * clusters * D;
        for (u32 f = threadIdx.x % width; f < D; f += width) {
            const float zero = __ldcg(origin + f);
            const float* const column = points.data + u64(f) * points.stride + points.tile;
            float* const of_feature = own + f;
            for (u32 q = group * part; q < end; q += 4) {
                float x[4];
                load_floats<4>(column + q, x);
                const uint4 of = *reinterpret_cast<const uint4*>(labels + q);
                of_feature[of.x * D] += x[0] - zero;
                if (q + 1 < end) of_feature[of.y * D] += x[1] - zero;
                if (q + 2 < end) of_feature[of.z * D] += x[2] - zero;
                if (q + 3 < end) of_feature[of.w * D] += x[3] - zero;
            }
        }
        __syncthreads();
    }
    GALATEA_INLINE void merge(double* partials) {
        __syncthreads();
        const u32 words = clusters * D;
        for (u32 i = threadIdx.x; i < words; i += blockDim.x) {
            double total = 0.0;
            for (u32 group = 0; group < groups; ++group) {
                total += sums[group * words + i];
                sums[group * words + i] = 0.0f;
            }
            add_partial(partials + i, total);
        }
        for (u32 c = threadIdx.x; c < clusters; c += blockDim.x) {
            add_partial(partials + words + c, masses[c]);
            masses[c] = 0;
        }
        __syncthreads();
    }
};

}  // namespace galatea
