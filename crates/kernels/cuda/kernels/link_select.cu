// Grid scope. Sums products of the rows that a predicate selects, like TPC-H query 6: with a branch, which
// loads the values of selected rows only, or predicated, which loads all and keeps the selected ones.
#include "galatea/args/link_select.h"
#include "galatea/warp.cuh"

using namespace galatea;

extern "C" __global__ void link_select(const LinkSelectArguments args) {
    constexpr u32 TOGETHER = 4;
    const u32* left = args.columns + args.rows;
    const u32* right = left + args.rows;
    u64 sum = 0;
    for (u64 first = grid_thread(); first < args.rows; first += TOGETHER * grid_threads()) {
        bool selected[TOGETHER];
#pragma unroll
        for (u32 t = 0; t < TOGETHER; ++t) {
            const u64 row = first + t * grid_threads();
            selected[t] = row < args.rows && args.columns[row] < args.threshold;
        }
#pragma unroll
        for (u32 t = 0; t < TOGETHER; ++t) {
            const u64 row = first + t * grid_threads();
            if (args.predicated) {
                const u64 product = row < args.rows ? u64(left[row]) * right[row] : 0;
                sum += selected[t] ? product : 0;
            } else if (selected[t]) {
                sum += u64(left[row]) * right[row];
            }
        }
    }
    sum = warp_reduce(sum, Sum{});
    if (lane() == 0 && sum != 0) atomicAdd(args.sum, sum);
}
