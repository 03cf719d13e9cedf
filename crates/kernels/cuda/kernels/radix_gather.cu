// Grid scope. Copies the slices of a partition from device and host memory into one array. Warps take slices
// of both memories at the same time, so the link and the device's memory are busy together.
#include "galatea/args/radix_gather.h"

using namespace galatea;

extern "C" __global__ void __launch_bounds__(512) radix_gather(const RadixGatherArguments args) {
    constexpr u32 TOGETHER = 8;
    constexpr u32 PIECE = WARP * TOGETHER;
    const u32 grid_warp = blockIdx.x * warps() + warp();
    const u32 grid_warps = gridDim.x * warps();
    // Pieces of slices are numbered through all slices, so that all warps have as many.
    u32 piece = 0;
    u32 mine = grid_warp;
    RadixSlice next = args.slices[args.first];
    for (u32 s = 0; s < args.count; ++s) {
        // The next slice is loaded while this one is copied.
        const RadixSlice slice = next;
        if (s + 1 < args.count) next = args.slices[args.first + s + 1];
        const u32 pieces = (slice.count + PIECE - 1) / PIECE;
        u64* const target = args.rows + 2 * u64(slice.first - args.origin);
        for (; mine < piece + pieces; mine += grid_warps) {
            const u32 from = (mine - piece) * PIECE + lane();
            Tuple tuples[TOGETHER];
#pragma unroll
            for (u32 t = 0; t < TOGETHER; ++t) {
                if (from + t * WARP < slice.count) tuples[t] = load_vector<2>(slice.rows, from + t * WARP);
            }
#pragma unroll
            for (u32 t = 0; t < TOGETHER; ++t) {
                if (from + t * WARP < slice.count) store_vector(target, from + t * WARP, tuples[t]);
            }
        }
        piece += pieces;
    }
}
