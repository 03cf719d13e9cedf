// Grid scope: a barrier of blocks that are all resident at once, which only a cooperative launch guarantees.
#pragma once

#include "galatea/link.cuh"

namespace galatea {

// All threads of `blocks` blocks call it, each the same number of times. `arrived` counts blocks: 0, or a
// multiple of their number, before the first call. All writes of these threads before the barrier are visible
// to all of them after it: a thread of each block releases for the block, after the block's own barrier, and
// acquires for it.
GALATEA_INLINE void blocks_meet(u64* arrived, u32 blocks) {
    __syncthreads();
    if (threadIdx.x == 0) {
        fence(false);
        const u64 ticket = atomicAdd(arrived, u64(1));
        const u64 all = (ticket / blocks + 1) * blocks;
        while (load_acquire_device(arrived) < all) __nanosleep(20);
    }
    __syncthreads();
}

}  // namespace galatea
