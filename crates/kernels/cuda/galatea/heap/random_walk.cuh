// Thread scope inside, warp scope outside: RW, the random walk of Pham et al. 2022, Algorithm 1. Every page
// has its own flag, a 32-bit word, 1 = free; a step probes one random page. Repaired: it ends (15) and its
// path depends on the launch (17).
#pragma once

#include "galatea/heap/view.cuh"

namespace galatea {

struct RandomWalkHeap {
    // See HeapSearch::take in heap/one_page.cuh.
    template <typename Lanes>
    static GALATEA_INLINE u64 take(const HeapView& heap, Lanes lanes, bool want, HeapWalk& walk, HeapTally& tally) {
        walk.position += lane();  // lanes that share a warp's walk diverge here
        u64 page = NO_PAGE;
        for (u32 look = 0; want && page == NO_PAGE && look < heap.probes; ++look) {
            const u64 at = scaled(walk.next(), heap.page_count);
            tally.step();
            if (__ldcg(flags(heap) + at) == 0) continue;
            tally.atomic();
            if (atomicExch(flags(heap) + at, 0u) != 0) page = at;
            else tally.collision();
        }
        const u32 takers = lanes.ballot(want && page == NO_PAGE);
        if (takers == 0) return page;
        const u64 swept = sweep(heap, lanes, takers, scaled(walk.next(), heap.page_count), tally);
        return page == NO_PAGE ? swept : page;
    }

    template <typename Lanes>
    static GALATEA_INLINE void give(const HeapView& heap, Lanes, u64 page) {
        if (page == NO_PAGE) return;
        if (page >= heap.page_count) return heap_error(heap, HEAP_FOREIGN, page);
        if (HEAP_CHECKS) {
            if (atomicExch(flags(heap) + page, 1u) != 0) heap_error(heap, HEAP_DOUBLE_FREE, page);
        } else {
            *reinterpret_cast<volatile u32*>(flags(heap) + page) = 1;
        }
    }

private:
    static GALATEA_INLINE u32* flags(const HeapView& heap) { return reinterpret_cast<u32*>(heap.own); }

    // Probes every flag once, wrapping around, with all lanes together: the sweep leaves a flag only if it
    // was seen 0, or all takers are served.
    template <typename Lanes>
    static GALATEA_NOINLINE u64 sweep(const HeapView heap, Lanes lanes, u32 takers, u64 start, HeapTally& tally) {
        const u32 count = lanes.count(), place = lanes.place();
        start = lanes.shuffle(start, lanes.leader());
        u64 page = NO_PAGE;
        if ((takers >> lane() & 1u) != 0) tally.sweep();
        for (u64 base = 0; base < heap.page_count && takers != 0;) {
            const u64 at = wrapped(start + base + place, heap.page_count);
            const u32 offers = lanes.ballot(base + place < heap.page_count && __ldcg(flags(heap) + at) != 0);
            if (offers == 0) { base += count; continue; }
            // The taker of rank r tries the page of the r-th lane that saw a free one.
            const u32 rank = __popc(takers & lanes_before());
            if ((takers >> lane() & 1u) != 0 && rank < u32(__popc(offers))) {
                const u32 source = select_bit(offers, rank);
                const u64 offered = wrapped(start + base + lanes.place_of(source), heap.page_count);
                tally.step();
                tally.atomic();
                if (atomicExch(flags(heap) + offered, 0u) != 0) page = offered;
                else tally.collision();
            }
            takers = lanes.ballot((takers >> lane() & 1u) != 0 && page == NO_PAGE);
        }
        return page;
    }
};

}  // namespace galatea
