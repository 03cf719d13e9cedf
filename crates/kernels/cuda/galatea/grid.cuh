// Grid scope: a barrier of blocks that are all resident at once, which only a cooperative launch promises.
#pragma once

#include "galatea/link.cuh"

namespace galatea {

// All threads of `blocks` blocks call, each as often. `arrived` counts them: 0, or a multiple of their
// number, before the first call. What any of these threads did before, all of them see behind it: a thread of
// each block releases for the block, whose own barrier comes before, and acquires for it.
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
