// The device heap, one page at a time, which is all that pipelines that write pages need. It is a separate
// header because a front end takes longer to parse the searches for whole warps than everything else of such
// a pipeline.
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
//     void give(heap, lanes, page)               releases each lane's page; NO_PAGE: nothing
//
// compiled twice: inline for a whole warp, and as a call for the lanes of any mask (heap/lanes.cuh).
#pragma once

#include "galatea/prelude.cuh"

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

// Thread scope. The address of a page, and the page that starts at an address; NO_PAGE for nullptr, and for
// an address that is not the start of a page, which the checking mode records.
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

// `lanes` allocate pages, or with RW_malloc runs of `units` pages (0: none).
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

// `lanes` release pages; NO_PAGE: nothing.
template <typename Lanes> GALATEA_INLINE void heap_give_lanes(const HeapView& heap, Lanes lanes, u64 page) {
    HeapSearch::give(heap, lanes, page);
    if (HEAP_COUNTS && page != NO_PAGE) atomicAdd(heap.status + HEAP_FREES, 1ull);
}

// Warp scope: called by the lanes of `mask`. Allocates one page, which is returned to all of them, or
// NO_PAGE. A function call, and a small one for the default search, because it is compiled with every
// pipeline that writes pages.
GALATEA_NOINLINE HeapTaken heap_take_one(const HeapView heap, u32 mask, HeapWalk walk) {
    const SomeLanes lanes{mask};
#if GALATEA_HEAP_SEARCH == 0
    HeapTally tally;
    const u64 page = WindowHeap::take_one(heap, lanes, walk, tally);
    tally.add_to(heap, lanes, lanes.leads(), lanes.leads() && page != NO_PAGE);
    return HeapTaken{page, walk};
#else
    const HeapTaken taken = heap_take_lanes(heap, lanes, lanes.leads() ? 1 : 0, walk);
    return HeapTaken{lanes.shuffle(taken.page, lanes.leader()), taken.walk};
#endif
}

// Thread scope. Releases a page.
GALATEA_INLINE void heap_give_one(const HeapView heap, u64 page) { heap_give_lanes(heap, OneLane{}, page); }

}  // namespace galatea
