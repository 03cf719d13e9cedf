// The device heap: pages for threads, warps and blocks, allocated inside a kernel. heap/view.cuh describes
// its properties, heap/one_page.cuh the page searches.
#pragma once

#include "galatea/block.cuh"
#include "galatea/heap/one_page.cuh"

namespace galatea {

GALATEA_NOINLINE HeapTaken heap_take_some(const HeapView heap, u32 mask, u64 units, HeapWalk walk) {
    return heap_take_lanes(heap, SomeLanes{mask}, units, walk);
}
GALATEA_NOINLINE void heap_give_some(const HeapView heap, u32 mask, u64 page) {
    heap_give_lanes(heap, SomeLanes{mask}, page);
}

// Warp scope: called by the lanes of `mask`. Allocates `units` consecutive pages for each lane, 0: none;
// returns the first, or NO_PAGE. Only RW_malloc allocates more than one.
GALATEA_INLINE u64 heap_take_units(const HeapView& heap, u32 mask, u64 units, HeapWalk& walk) {
    const HeapTaken taken = mask == 0xffffffffu ? heap_take_lanes(heap, WholeWarp{}, units, walk)
                                                : heap_take_some(heap, mask, units, walk);
    walk = taken.walk;
    return taken.page;
}

// Warp scope: called by the lanes of `mask`. A page for each lane that wants one, or NO_PAGE.
GALATEA_INLINE u64 heap_take(const HeapView& heap, u32 mask, bool want, HeapWalk& walk) {
    return heap_take_units(heap, mask, want ? 1 : 0, walk);
}

// Warp scope: called by the lanes of `mask`. Releases each lane's page; NO_PAGE: nothing.
GALATEA_INLINE void heap_give(const HeapView& heap, u32 mask, u64 page) {
    if (mask == 0xffffffffu) heap_give_lanes(heap, WholeWarp{}, page);
    else heap_give_some(heap, mask, page);
}

// Warp scope: called by the lanes of `mask`. Allocates at least `bytes` bytes at a multiple of the page size;
// nullptr for 0 bytes, for more than a page (RW_malloc: than the pool), and if no such block is free.
GALATEA_INLINE void* heap_alloc(const HeapView& heap, u32 mask, u64 bytes, HeapWalk& walk) {
    u64 units = bytes == 0 ? 0 : __umul64hi(bytes - 1, heap.reciprocal) + 1;
    if (GALATEA_HEAP_SEARCH != 6 && units > 1) {
        heap_error(heap, HEAP_TOO_LARGE, bytes);
        units = 0;
    }
    return heap_address(heap, heap_take_units(heap, mask, units, walk));
}

// Warp scope: called by the lanes of `mask`. Frees an allocation of heap_alloc; nullptr: nothing.
GALATEA_INLINE void heap_free(const HeapView& heap, u32 mask, const void* address) {
    heap_give(heap, mask, heap_page(heap, address));
}

// Block scope: called by every thread. Allocates `count` pages for the block into pages[0..count) in shared
// memory; returns the number allocated, which may be less than count, on every thread. Barriers: 3 per
// blockDim.x pages, and 1.
GALATEA_INLINE u32 heap_take_block(const HeapView& heap, u32 count, u64* pages, HeapWalk& walk, Scratch<u32>& scratch) {
    const u32 mask = first_lanes(live_lanes());
    u32 total = 0;
    for (u32 base = 0; base < count; base += blockDim.x) {
        const u64 page = heap_take(heap, mask, base + threadIdx.x < count, walk);
        u32 got;
        const u32 before = block_exclusive_scan(u32(page != NO_PAGE), Sum{}, got, scratch);
        if (page != NO_PAGE) pages[total + before] = page;
        total += got;
    }
    __syncthreads();
    return total;
}

// Block scope: called by every thread. Releases pages[0..count) of shared memory. Barriers: 2.
GALATEA_INLINE void heap_give_block(const HeapView& heap, u32 count, const u64* pages) {
    const u32 mask = first_lanes(live_lanes());
    __syncthreads();
    for (u32 base = 0; base < count; base += blockDim.x)
        heap_give(heap, mask, base + threadIdx.x < count ? pages[base + threadIdx.x] : NO_PAGE);
    __syncthreads();
}

}  // namespace galatea
