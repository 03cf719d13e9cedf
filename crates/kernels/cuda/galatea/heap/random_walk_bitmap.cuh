// Thread scope inside, warp scope outside: RW-BM, the random walk over a bitmap (Pham et al. 2022, 4.1), with
// words of 32 or 64 bits. A step probes one random word and tries one free bit of it. Repaired: it ends (15),
// the bits after the last page are initially in use and the index is neither biased nor divided (17),
// visitors of a word choose different bits (18).
#pragma once

#include "galatea/heap/claim.cuh"

namespace galatea {

template <typename Word> struct RandomWalkBitmapHeap {
    static constexpr u32 BITS = 8 * sizeof(Word);

    // See HeapSearch::take in heap/one_page.cuh.
    template <typename Lanes>
    static GALATEA_INLINE u64 take(const HeapView& heap, Lanes lanes, bool want, HeapWalk& walk, HeapTally& tally) {
        walk.position += lane();  // lanes that share a warp's walk diverge here
        Word* words = reinterpret_cast<Word*>(heap.bitmap);
        const u64 count = (heap.page_count + BITS - 1) / BITS;
        u64 page = NO_PAGE;
        for (u32 look = 0; want && page == NO_PAGE && look < heap.probes; ++look) {
            const u64 random = walk.next();
            const u64 word = scaled(random, count);
            tally.step();
            const Word bits = __ldcg(words + word);
            if (bits == 0) continue;
            const u32 bit = select_bit(bits, u32(u64(u32(random)) * __popcll(bits) >> 32));
            tally.atomic();
            if (claim_bit(words + word, bit)) page = word * BITS + bit;
            else tally.collision();
        }
        const u32 takers = lanes.ballot(want && page == NO_PAGE);
        if (takers == 0) return page;
        const u64 swept = sweep_bitmap(heap, lanes, takers, u32(scaled(walk.next(), heap_words(heap))), tally);
        return page == NO_PAGE ? swept : page;
    }

    template <typename Lanes>
    static GALATEA_INLINE void give(const HeapView& heap, Lanes lanes, u64 page) {
        give_bits(heap, lanes, page, [](u32, u32) {});
    }
};

}  // namespace galatea
