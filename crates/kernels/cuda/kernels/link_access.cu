// Grid scope. Reads or writes pieces of memory, wherever that is: one warp a piece, four words of each lane
// under way. What is written into word i is a hash of i and the seed.
#include "galatea/args/link_access.h"
#include "galatea/warp.cuh"

using namespace galatea;

extern "C" __global__ void link_access(const LinkAccessArguments args) {
    constexpr u32 TOGETHER = 4;
    const u64 all_warps = grid_threads() / WARP;
    u64 sum = 0;
    for (u64 piece = grid_thread() / WARP; piece < args.granules; piece += all_warps) {
        const u64 place = args.random ? mix64(args.seed + piece) % args.places : piece % args.places;
        const u64 first = place * args.granule_words;
        for (u64 at = lane(); at < args.granule_words; at += TOGETHER * WARP) {
            u32 values[TOGETHER];
#pragma unroll
            for (u32 t = 0; t < TOGETHER; ++t) {
                const u64 word = at + t * WARP;
                const bool inside = word < args.granule_words;
                if (args.writes) {
                    if (inside) args.words[first + word] = u32(mix64(args.seed ^ (first + word)));
                } else {
                    values[t] = inside ? args.words[first + word] : 0;
                }
            }
            if (args.writes) continue;
#pragma unroll
            for (u32 t = 0; t < TOGETHER; ++t) sum += values[t];
        }
    }
    if (args.writes) return;
    sum = warp_reduce(sum, Sum{});
    if (lane() == 0 && sum != 0) atomicAdd(args.sum, sum);
}
