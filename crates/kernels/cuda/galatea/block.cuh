// Block scope: collectives of all threads of a one-dimensional block of any size from 1 to 1024.
//
// Every thread of the block must call them, the same number of times. Shared memory: a `Scratch<T>` that the
// caller declares `__shared__` and may reuse right after the call, because every function ends with a
// barrier.
#pragma once

#include "galatea/warp.cuh"

namespace galatea {

constexpr u32 MAX_WARPS = 32;

// One value per warp, and one for all.
template <typename T> struct Scratch {
    T warp[MAX_WARPS];
    T total;
};

// Combines the values of all threads. Valid on every thread. Barriers: 3.
template <typename T, typename Op> GALATEA_INLINE T block_reduce(T value, Op op, Scratch<T>& scratch) {
    value = warp_reduce(value, op);
    if (lane() == 0) scratch.warp[warp()] = value;
    __syncthreads();
    // If the block has several warps, warp 0 has all 32 lanes, so it has a lane for every warp.
    if (warp() == 0) {
        const T of_warp = lane() < warps() ? scratch.warp[lane()] : op.template identity<T>();
        const T total = warp_reduce(of_warp, op);
        if (lane() == 0) scratch.total = total;
    }
    __syncthreads();
    const T total = scratch.total;
    __syncthreads();
    return total;
}

// Combines the values of the threads before this one (the operator's identity on thread 0), and of all
// threads. Both are valid on every thread. Barriers: 3.
template <typename T, typename Op>
GALATEA_INLINE T block_exclusive_scan(T value, Op op, T& total, Scratch<T>& scratch) {
    T inclusive;
    const T before_in_warp = warp_exclusive_scan(value, op, inclusive);
    if (lane() == live_lanes() - 1) scratch.warp[warp()] = inclusive;
    __syncthreads();
    if (warp() == 0) {
        const T of_warp = lane() < warps() ? scratch.warp[lane()] : op.template identity<T>();
        T through_warp;
        const T before_warp = warp_exclusive_scan(of_warp, op, through_warp);
        if (lane() < warps()) scratch.warp[lane()] = before_warp;
        if (lane() == live_lanes() - 1) scratch.total = through_warp;
    }
    __syncthreads();
    const T before_warp = scratch.warp[warp()];
    total = scratch.total;
    __syncthreads();
    return op(before_warp, before_in_warp);
}

// Reserves `count` positions in an output of unknown size for this thread, by one atomic per block. Returns
// the first; the positions of a block are in thread order and contiguous. Valid on every thread. Barriers: 5.
GALATEA_INLINE u64 block_append(u64* counter, u32 count, Scratch<u32>& scratch, u64& shared_first) {
    u32 total;
    const u32 before = block_exclusive_scan(count, Sum{}, total, scratch);
    if (threadIdx.x == 0) shared_first = total == 0 ? 0 : atomicAdd(counter, u64(total));
    __syncthreads();
    const u64 first = shared_first;
    __syncthreads();
    return first + before;
}

}  // namespace galatea
