// Warp scope: a ring of free page numbers, the idea of Ouroboros (Winter et al. 2020) without its
// virtualisation: the baseline that has one global state. A warp reserves its pages in a balance, takes the
// same number of tickets, and empties their slots; freeing takes tickets at the other end and fills slots. A
// slot is 0 or a page number plus one; the number of slots equals the number of pages.
//
// `own` is the ring, `balances[0]` the balance. The writer of a ticket's slot may not have finished; then the
// ticket's holder waits for that thread, which waits for no other. The bitmap is maintained only in the
// checking mode, to detect double frees.
#pragma once

#include "galatea/heap/view.cuh"

namespace galatea {

struct QueueHeap {
    // See HeapSearch::take in heap/one_page.cuh.
    template <typename Lanes>
    static GALATEA_INLINE u64 take(const HeapView& heap, Lanes lanes, bool want, HeapWalk&, HeapTally& tally) {
        const u32 takers = lanes.ballot(want);
        if (takers == 0) return NO_PAGE;
        const u32 leader = lanes.leader();
        if (want) tally.step();
        u32 got = 0;
        if (lane() == leader) got = balance_reserve(heap.balances, __popc(takers), tally);
        got = lanes.shuffle(got, leader);
        u64 ticket = 0;
        if (lane() == leader && got != 0) {
            tally.atomic();
            ticket = atomicAdd(heap.status + HEAP_CURSOR, u64(got));
        }
        const u32 rank = __popc(takers & lanes_before());
        ticket = lanes.shuffle(ticket, leader) + rank;
        if (!want || rank >= got) return NO_PAGE;
        u64* slot = heap.own + ticket % heap.page_count;
        for (;;) {
            tally.atomic();
            const u64 page = atomicExch(slot, 0ull);
            if (page != 0) {
                if (HEAP_CHECKS) claim_bit(heap.bitmap + (page - 1) / 64, (page - 1) & 63);
                return page - 1;
            }
            tally.collision();
        }
    }

    template <typename Lanes>
    static GALATEA_INLINE void give(const HeapView& heap, Lanes lanes, u64 page) {
        if (page != NO_PAGE && page >= heap.page_count) {
            heap_error(heap, HEAP_FOREIGN, page);
            page = NO_PAGE;
        }
        if (HEAP_CHECKS && page != NO_PAGE && (free_bits(heap.bitmap + page / 64, 1ull << (page & 63)) >> (page & 63) & 1) != 0) {
            heap_error(heap, HEAP_DOUBLE_FREE, page);
            page = NO_PAGE;
        }
        const u32 givers = lanes.ballot(page != NO_PAGE);
        if (givers == 0) return;
        const u64 ticket = warp_append(lanes.mask(), heap.status + HEAP_TAIL, page != NO_PAGE);
        if (page != NO_PAGE) {
            u64* slot = heap.own + ticket % heap.page_count;
            while (atomicCAS(slot, 0ull, page + 1) != 0) {}
        }
        lanes.sync();
        if (lanes.leads()) balance_return(heap.balances, __popc(givers));
    }
};

}  // namespace galatea
