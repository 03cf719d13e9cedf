// The device heap: pages for threads, warps and blocks from inside a kernel. What it is and what it promises:
// heap/view.cuh.
//
// A program contains one page search, chosen with -DGALATEA_HEAP_SEARCH=n (host twin:
// galatea_kernels::PageSearch):
//
//     0     window      the default: heap/window.cuh
//     1     RW          heap/random_walk.cuh
//     2, 3  RW-BM       words of 32, 64 bits: heap/random_walk_bitmap.cuh
//     4, 5  CoRW        words of 32, 64 bits: heap/collaborative.cuh
//     6     RW_malloc   consecutive units: heap/runs.cuh
//     7     queue       heap/queue.cuh
//     8     bump        heap/bump.cuh
//
// A page search is a type with
//
//     u64 take(heap, lanes, want, walk, tally)   a page for each lane that wants one, or NO_PAGE
//     void give(heap, lanes, page)               gives back each lane's page; NO_PAGE: nothing
//
// compiled twice: inline for a whole warp, and as a call for the lanes of any mask (heap/lanes.cuh).
#pragma once

#include "galatea/block.cuh"

#ifndef GALATEA_HEAP_SEARCH
#define GALATEA_HEAP_SEARCH 0
#endif
#if GALATEA_HEAP_SEARCH == 0
#include "galatea/heap/window.cuh"
namespace galatea { using HeapSearch = WindowHeap; }
#elif GALATEA_HEAP_SEARCH == 1
#include "galatea/heap/random_walk.cuh"
namespace galatea { using HeapSearch = RandomWalkHeap; }
#elif GALATEA_HEAP_SEARCH == 2
#include "galatea/heap/random_walk_bitmap.cuh"
namespace galatea { using HeapSearch = RandomWalkBitmapHeap<u32>; }
#elif GALATEA_HEAP_SEARCH == 3
#include "galatea/heap/random_walk_bitmap.cuh"
namespace galatea { using HeapSearch = RandomWalkBitmapHeap<u64>; }
#elif GALATEA_HEAP_SEARCH == 4
#include "galatea/heap/collaborative.cuh"
namespace galatea { using HeapSearch = CollaborativeHeap<u32>; }
#elif GALATEA_HEAP_SEARCH == 5
#include "galatea/heap/collaborative.cuh"
namespace galatea { using HeapSearch = CollaborativeHeap<u64>; }
#elif GALATEA_HEAP_SEARCH == 6
#include "galatea/heap/runs.cuh"
namespace galatea { using HeapSearch = RunsHeap; }
#elif GALATEA_HEAP_SEARCH == 7
#include "galatea/heap/queue.cuh"
namespace galatea { using HeapSearch = QueueHeap; }
#elif GALATEA_HEAP_SEARCH == 8
#include "galatea/heap/bump.cuh"
namespace galatea { using HeapSearch = BumpHeap; }
#else
#error "GALATEA_HEAP_SEARCH: unknown page search"
#endif

namespace galatea {

// Thread scope. The address of a page, and the page an address is the first byte of; NO_PAGE for nullptr, and
// for an address that is no page's first, which the checking mode notes.
GALATEA_INLINE u8* heap_address(const HeapView& heap, u64 page) {
    return page == NO_PAGE ? nullptr : heap.pages + page * heap.page_bytes;
}
GALATEA_INLINE u64 heap_page(const HeapView& heap, const void* address) {
    if (address == nullptr) return NO_PAGE;
    const u64 offset = u64(static_cast<const u8*>(address) - heap.pages);
    const u64 page = __umul64hi(offset, heap.reciprocal);
    if (HEAP_CHECKS && (page >= heap.page_count || page * heap.page_bytes != offset)) {
        heap_error(heap, HEAP_FOREIGN, offset);
        return NO_PAGE;
    }
    return page;
}

struct HeapTaken {
    u64 page;
    HeapWalk walk;
};

// `lanes` take pages, or with RW_malloc runs of `units` pages (0: none).
template <typename Lanes>
GALATEA_INLINE HeapTaken heap_take_lanes(const HeapView& heap, Lanes lanes, u64 units, HeapWalk walk) {
    HeapTally tally;
#if GALATEA_HEAP_SEARCH == 6
    const u64 page = RunsHeap::take_run(heap, lanes, units, walk, tally);
#else
    const u64 page = HeapSearch::take(heap, lanes, units != 0, walk, tally);
#endif
    tally.add_to(heap, lanes, units != 0, page != NO_PAGE);
    return HeapTaken{page, walk};
}
GALATEA_NOINLINE HeapTaken heap_take_some(const HeapView heap, u32 mask, u64 units, HeapWalk walk) {
    return heap_take_lanes(heap, SomeLanes{mask}, units, walk);
}

// `lanes` give back pages; NO_PAGE: nothing.
template <typename Lanes> GALATEA_INLINE void heap_give_lanes(const HeapView& heap, Lanes lanes, u64 page) {
    HeapSearch::give(heap, lanes, page);
    if (HEAP_COUNTS && page != NO_PAGE) atomicAdd(heap.status + HEAP_FREES, 1ull);
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
