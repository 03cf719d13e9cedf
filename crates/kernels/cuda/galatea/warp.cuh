// Warp scope: collectives of the (up to 32) threads of a warp in a one-dimensional block.
//
// Every live thread of the warp must call them, converged in program order, unless a function takes a mask:
// then exactly the threads of the mask. No barriers except the warp's, no shared memory. The last warp of a
// block may be partial: missing lanes are always excluded.
#pragma once

#include "galatea/thread.cuh"

namespace galatea {

constexpr u32 WARP = 32;

// Lane of this thread, warp of this thread in its block, and warps of the block.
GALATEA_INLINE u32 lane() { return threadIdx.x % WARP; }
GALATEA_INLINE u32 warp() { return threadIdx.x / WARP; }
GALATEA_INLINE u32 warps() { return (blockDim.x + WARP - 1) / WARP; }

// Lanes that exist in this thread's warp: 32 except in the last one.
GALATEA_INLINE u32 live_lanes() {
    const u32 before = warp() * WARP;
    return blockDim.x - before < WARP ? blockDim.x - before : WARP;
}

// The first `count` lanes, 1 <= count <= 32.
GALATEA_INLINE u32 first_lanes(u32 count) { return 0xffffffffu >> (WARP - count); }

// The lanes before this one.
GALATEA_INLINE u32 lanes_before() { return (1u << lane()) - 1; }

// The value of another lane, like the instructions of the same names; 128-bit values are shuffled by halves.
template <typename T> GALATEA_INLINE T shuffle_up(u32 mask, T value, u32 distance) {
    return __shfl_up_sync(mask, value, distance);
}
GALATEA_INLINE u128 shuffle_up(u32 mask, u128 value, u32 distance) {
    const u64 low = __shfl_up_sync(mask, u64(value), distance);
    const u64 high = __shfl_up_sync(mask, u64(value >> 64), distance);
    return u128(high) << 64 | low;
}
template <typename T> GALATEA_INLINE T shuffle_down(u32 mask, T value, u32 distance) {
    return __shfl_down_sync(mask, value, distance);
}
GALATEA_INLINE u128 shuffle_down(u32 mask, u128 value, u32 distance) {
    const u64 low = __shfl_down_sync(mask, u64(value), distance);
    const u64 high = __shfl_down_sync(mask, u64(value >> 64), distance);
    return u128(high) << 64 | low;
}

// Returns the value unchanged; the compiler keeps it instead of recomputing it at each use. Called by all
// lanes of a whole warp.
GALATEA_INLINE u32 kept(u32 value) { return __shfl_sync(0xffffffffu, value, lane()); }

// Combines the values of all live lanes. Valid on lane 0 only; other lanes hold partial results.
template <typename T, typename Op> GALATEA_INLINE T warp_reduce(T value, Op op) {
    const u32 live = live_lanes();
    const u32 mask = first_lanes(live);
#pragma unroll 1
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        const T other = shuffle_down(mask, value, distance);
        if (lane() + distance < live) value = op(value, other);
    }
    return value;
}

// Combines the values of the lanes before this one (the operator's identity on lane 0). Valid on every live
// lane. `inclusive`: the same with this lane's value; on the last live lane that is the warp's total.
template <typename T, typename Op> GALATEA_INLINE T warp_exclusive_scan(T value, Op op, T& inclusive) {
    const u32 mask = first_lanes(live_lanes());
    inclusive = value;
#pragma unroll 1
    for (u32 distance = 1; distance < WARP; distance *= 2) {
        const T other = shuffle_up(mask, inclusive, distance);
        if (lane() >= distance) inclusive = op(other, inclusive);
    }
    const T before = shuffle_up(mask, inclusive, 1);
    return lane() == 0 ? op.template identity<T>() : before;
}

// Reserves one position in an output of unknown size for every lane that keeps its row, by one atomic per
// warp. Called by exactly the lanes of `mask`. Returns the position, valid on lanes that keep; positions are
// in lane order.
GALATEA_INLINE u64 warp_append(u32 mask, u64* counter, bool keep) {
    const u32 keepers = __ballot_sync(mask, keep);
    if (keepers == 0) return 0;
    const u32 leader = __ffs(keepers) - 1;
    u64 first = 0;
    if (lane() == leader) first = atomicAdd(counter, u64(__popc(keepers)));
    first = __shfl_sync(mask, first, leader);
    return first + __popc(keepers & lanes_before());
}

// Stores a bit for each of `items` items in words of 32, whole words. Called by all lanes of a whole warp;
// the items of a warp are consecutive from a multiple of 32 on. Nothing is stored for words past the last
// item: the memory after the last word may be another array, which other warps write at the same time.
GALATEA_INLINE void store_bits(u32* words, u32 item, u32 items, bool bit) {
    const u32 bits = __ballot_sync(0xffffffffu, bit);
    if (lane() == 0 && item < items) words[item / WARP] = bits;
}

}  // namespace galatea
