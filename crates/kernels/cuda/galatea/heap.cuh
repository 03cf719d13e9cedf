// The device heap: pages for threads, warps and blocks from inside a kernel. What it is and what it promises:
// heap/view.cuh. Which page search it has: heap/one_page.cuh.
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

// Warp scope: the lanes of `mask` call. `units` pages in a row for each lane, 0: none; the first, or NO_PAGE.
// Only RW_malloc gives more than one.
GALATEA_INLINE u64 heap_take_units(const HeapView& heap, u32 mask, u64 units, HeapWalk& walk) {
    const HeapTaken taken = mask == 0xffffffffu ? heap_take_lanes(heap, WholeWarp{}, units, walk)
                                                : heap_take_some(heap, mask, units, walk);
    walk = taken.walk;
    return taken.page;
}

// Warp scope: the lanes of `mask` call. A page for each that wants one, or NO_PAGE.
GALATEA_INLINE u64 heap_take(const HeapView& heap, u32 mask, bool want, HeapWalk& walk) {
    return heap_take_units(heap, mask, want ? 1 : 0, walk);
}

// Warp scope: the lanes of `mask` call. Gives back each lane's page; NO_PAGE: nothing.
GALATEA_INLINE void heap_give(const HeapView& heap, u32 mask, u64 page) {
    if (mask == 0xffffffffu) heap_give_lanes(heap, WholeWarp{}, page);
    else heap_give_some(heap, mask, page);
}

// Warp scope: the lanes of `mask` call. At least `bytes` bytes at a multiple of the page size; nullptr for 0
// bytes, for more than a page (RW_malloc: than the pool), and when there is no such block.
GALATEA_INLINE void* heap_alloc(const HeapView& heap, u32 mask, u64 bytes, HeapWalk& walk) {
    u64 units = bytes == 0 ? 0 : __umul64hi(bytes - 1, heap.reciprocal) + 1;
    if (GALATEA_HEAP_SEARCH != 6 && units > 1) {
        heap_error(heap, HEAP_TOO_LARGE, bytes);
        units = 0;
    }
    return heap_address(heap, heap_take_units(heap, mask, units, walk));
}

// Warp scope: the lanes of `mask` call. Frees what heap_alloc gave; nullptr: nothing.
GALATEA_INLINE void heap_free(const HeapView& heap, u32 mask, const void* address) {
    heap_give(heap, mask, heap_page(heap, address));
}

// Block scope: every thread calls. `count` pages for the block, into pages[0..count) in shared memory; the
// number that there were, valid on every thread. Fewer than count are given all the same. Barriers: 3 per
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

// Block scope: every thread calls. Gives back pages[0..count) of shared memory. Barriers: 2.
GALATEA_INLINE void heap_give_block(const HeapView& heap, u32 count, const u64* pages) {
    const u32 mask = first_lanes(live_lanes());
    __syncthreads();
    for (u32 base = 0; base < count; base += blockDim.x)
        heap_give(heap, mask, base + threadIdx.x < count ? pages[base + threadIdx.x] : NO_PAGE);
    __syncthreads();
}

}  // namespace galatea
