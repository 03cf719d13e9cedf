// Warp scope: CoRW, the collaborative random walk (Pham et al. 2022, 4.2 and Algorithm 2), with words of 32
// or 64 bits. Every lane locks a random word and reads it; the pages found are distributed among the lanes
// that need one.
//
// `own` is the lock map, one bit per word. Deviations from Algorithm 2, which loses and duplicates pages:
//
//     lanes that have been served keep their page
//     a bit is taken only when a lane consumes it, and written back by an atomic
//     there may be fewer offers than needs
//     no fences: a page counts only if the write-back finds it free, so a stale read costs a step
//     locks hide pages only until the sweep, which ignores them
//     it works for any mask of lanes, and ends
#pragma once

#include "galatea/heap/claim.cuh"

namespace galatea {

template <typename Word> struct CollaborativeHeap {
    static constexpr u32 BITS = 8 * sizeof(Word);

    // See HeapSearch::take in heap/one_page.cuh.
    template <typename Lanes>
    static GALATEA_INLINE u64 take(const HeapView& heap, Lanes lanes, bool want, HeapWalk& walk, HeapTally& tally) {
        walk.position += lane();  // lanes that share a warp's walk diverge here
        Word* words = reinterpret_cast<Word*>(heap.bitmap);
        const u64 count = (heap.page_count + BITS - 1) / BITS;
        u64 page = NO_PAGE;
        u32 needy = lanes.ballot(want);
        for (u32 look = 0; needy != 0 && look < heap.probes; ++look) {
            const u64 word = scaled(walk.next(), count);
            u64* lock = heap.own + word / 64;
            const u64 key = 1ull << (word & 63);
            // A try-lock: no lane waits, so none can wait forever.
            tally.atomic(2);
            const bool locked = (atomicOr(lock, key) & key) == 0;
            if (want) tally.step();
            Word left = locked ? __ldcg(words + word) : 0;
            Word taken = 0;
            u32 owner = 0, bit = 0;
            bool served = false;
            u32 open = needy;
            for (u32 has; open != 0 && (has = lanes.ballot(left != 0)) != 0;) {
                const u32 offered = left == 0 ? 0 : __ffsll(i64(u64(left))) - 1;
                const u32 rank = __popc(open & lanes_before());
                const bool takes = (open >> lane() & 1u) != 0 && rank < u32(__popc(has));
                const u32 source = takes ? select_bit(has, rank) : 0;
                const u32 found = lanes.shuffle(offered, takes ? source : u32(__ffs(has) - 1));
                if (takes) { owner = source; bit = found; served = true; }
                if (left != 0 && __popc(has & lanes_before()) < __popc(open)) {
                    taken |= Word(1) << offered;
                    left &= left - 1;
                }
                open = lanes.ballot((open >> lane() & 1u) != 0 && !takes);
            }
            Word old = 0;
            if (taken != 0) {
                tally.atomic();
                old = claim_bits(words + word, taken);
            }
            if (locked) atomicAnd(lock, ~key);
            const u32 source = served ? owner : lanes.leader();
            const u64 given = lanes.shuffle(u64(old), source), from = lanes.shuffle(word, source);
            if (served) {
                if ((given >> bit & 1) != 0) page = from * BITS + bit;
                else tally.collision();
            }
            needy = lanes.ballot(want && page == NO_PAGE);
        }
        if (needy == 0) return page;
        const u64 swept = sweep_bitmap(heap, lanes, needy, u32(scaled(walk.next(), heap_words(heap))), tally);
        return page == NO_PAGE ? swept : page;
    }

    template <typename Lanes>
    static GALATEA_INLINE void give(const HeapView& heap, Lanes lanes, u64 page) {
        give_bits(heap, lanes, page, [](u32, u32) {});
    }
};

}  // namespace galatea
