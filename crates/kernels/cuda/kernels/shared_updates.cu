// Measures the cost of an atomic in shared memory by the number of conflicting lanes: every thread repeatedly
// adds to one word of its block.
#include "galatea/args/shared_updates.h"
#include "galatea/block.cuh"

using namespace galatea;

// Word of this lane: `lanes` of the warp per bank, in one word of the bank or in different ones. Warps begin
// at different words.
GALATEA_INLINE u32 word_of(const SharedUpdatesArguments& args) {
    const u32 banks = WARP / u32(args.lanes);
    const u32 bank = (lane() % banks + warp()) % WARP;
    const u32 row = ((args.same ? 0 : lane() / banks) + warp()) % WARP;
    return row * WARP + bank;
}

// Constant increments are a separate case: the device counts lanes of the same word in one step.
template <bool DIFFER, bool WAITS> GALATEA_INLINE void add_up(u32* word, u32 updates) {
    u32 seen = 0;
    for (u32 i = 0; i < updates; ++i) {
        // Words stay below 2^31, so the previous value adds nothing, but the update still depends on it.
        const u32 increment = DIFFER ? 1u + (lane() & 1) + (WAITS ? seen >> 31 : 0) : 1u;
        if (WAITS) seen = atomicAdd(word, increment);
        else atomicAdd(word, increment);
    }
}

extern "C" __global__ void __launch_bounds__(1024) shared_updates(SharedUpdatesArguments args) {
    __shared__ u32 words[WARP * WARP];
    for (u32 i = threadIdx.x; i < WARP * WARP; i += blockDim.x) words[i] = 0;
    __syncthreads();
    u32* const word = words + word_of(args);
    if (args.waits) add_up<true, true>(word, u32(args.updates));
    else if (args.differ) add_up<true, false>(word, u32(args.updates));
    else add_up<false, false>(word, u32(args.updates));
    __syncthreads();
    u64 total = 0;
    for (u32 i = threadIdx.x; i < WARP * WARP; i += blockDim.x) total += words[i];
    total = warp_reduce(total, Sum{});
    if (lane() == 0) atomicAdd(args.total, total);
}
