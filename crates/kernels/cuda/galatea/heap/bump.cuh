// Warp scope: the lower bound for comparisons, one atomicAdd per warp and no reuse ("Direct Output Buffer" in
// Pham et al. 2022, 5.2.3). Freed pages are lost until the heap is reset; the bitmap is not maintained.
#pragma once

#include "galatea/heap/view.cuh"

namespace galatea {

struct BumpHeap {
    // See HeapSearch::take in heap/one_page.cuh.
    template <typename Lanes>
    static GALATEA_INLINE u64 take(const HeapView& heap, Lanes lanes, bool want, HeapWalk&, HeapTally& tally) {
        if (want) tally.step();
        if (lanes.leads()) tally.atomic();
        const u64 page = warp_append(lanes.mask(), heap.status + HEAP_CURSOR, want);
        return want && page < heap.page_count ? page : NO_PAGE;
    }

    template <typename Lanes>
    static GALATEA_INLINE void give(const HeapView& heap, Lanes, u64 page) {
        if (page != NO_PAGE && page >= heap.page_count) heap_error(heap, HEAP_FOREIGN, page);
    }
};

}  // namespace galatea
