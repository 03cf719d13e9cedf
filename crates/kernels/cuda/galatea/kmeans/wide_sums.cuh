// Block scope: sums of points of more features than registers hold, for passes by lanes (kmeans/wide.cuh) and
// by matrix units (kmeans/shared_tile.cuh): Partitioned Features (thesis §5.2.1).
//
// The block exchanges its labels, followed by one barrier; then its threads form `copies` groups, each for a
// part of the tile's points. A thread of a group owns features, and alone adds them: no atomics are needed,
// and the words of lanes are in different banks. Masses are counted by the threads that hold the labels, by
// integer atomics of the block.
//
//   shared memory of tiles of n points, bytes: 4 (groups (k + 1) d + k + n)
#pragma once

#include "galatea/kmeans/sums.cuh"

namespace galatea {

template <u32 D, class Points> struct WideFeatureSums {
    // [point of the tile]: word of the sums of its cluster; the first of four points has the highest bit set
    // if two of them are of one cluster.
    u32* places;
    float* sums;  // [group][cluster][feature], and one cluster for points that do not exist
    SharedFloats own;  // of this thread's group
    u32* masses;  // [cluster]
    const float* origin;
    u32 clusters;
    u32 groups;
    GALATEA_INLINE explicit WideFeatureSums(const SumsPlace& place)
        : places(reinterpret_cast<u32*>(place.shared)), sums(place.shared + Points::tile_points()),
          own(sums + threadIdx.x / (blockDim.x / place.copies) * ((place.clusters + 1) * D)),
          masses(reinterpret_cast<u32*>(sums + place.copies * (place.clusters + 1) * D)), origin(place.origin),
          clusters(place.clusters), groups(place.copies) {
        clear(sums, groups * (clusters + 1) * D + clusters);
    }
    // Block scope.
    GALATEA_INLINE void add(const Points& points, const u32 (&label)[Points::LABELS]) {
        const u32 tile = Points::tile_points(), live = points.tile_live(), whole = (live + 3) / 4 * 4;
        points.each_position(label, [&](u32 of, u32 position, bool repeats) {
            places[position] = of * D | u32(repeats) << 31;
            atomicAdd(masses + of, 1u);
        });
        if (threadIdx.x < whole - live) places[live + threadIdx.x] = clusters * D;
        __syncthreads();
        const u32 width = blockDim.x / groups, group = threadIdx.x / width, part = tile / groups;
        const u32 end = (group + 1) * part < whole ? (group + 1) * part : whole;
        for (u32 f = threadIdx.x % width; f < D; f += width) {
            const float zero = __ldcg(origin + f);
            // The next four points are loaded while these are added; additions are serialised if two are of
            // one cluster.
            float next[4];
            uint4 next_place;
            const auto load = [&](u32 q) {
                if (q >= end) return;
                points.load_four(f, q, next);
                next_place = *reinterpret_cast<const uint4*>(places + q);
            };
            const SharedFloats of_feature = own.from(f);
            const auto add = [&](u32 place, float value) {
                of_feature.store(place, of_feature.load(place) + value);
            };
            load(group * part);
            for (u32 q = group * part; q < end; q += 4) {
                const float x[4] = {next[0] - zero, next[1] - zero, next[2] - zero, next[3] - zero};
                const uint4 place = next_place;
                load(q + 4);
                if (place.x >> 31) {
                    add(place.x & ~(1u << 31), x[0]);
                    add(place.y, x[1]);
                    add(place.z, x[2]);
                    add(place.w, x[3]);
                } else {
                    const float sum[4] = {of_feature.load(place.x), of_feature.load(place.y),
                                          of_feature.load(place.z), of_feature.load(place.w)};
                    of_feature.store(place.x, sum[0] + x[0]);
                    of_feature.store(place.y, sum[1] + x[1]);
                    of_feature.store(place.z, sum[2] + x[2]);
                    of_feature.store(place.w, sum[3] + x[3]);
                }
            }
        }
        __syncthreads();
    }
    GALATEA_INLINE void merge(double* partials) {
        __syncthreads();
        const u32 words = clusters * D, all = words + D;
        for (u32 i = threadIdx.x; i < words; i += blockDim.x) {
            double total = 0.0;
            for (u32 group = 0; group < groups; ++group) {
                total += sums[group * all + i];
                sums[group * all + i] = 0.0f;
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
