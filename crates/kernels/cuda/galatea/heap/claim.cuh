// Warp scope: claiming bits of the bitmap, and giving them back. Shared by the strategies that have a bitmap.
#pragma once

#include "galatea/heap/view.cuh"

namespace galatea {

// One look at a window of words, one per lane of `mask`: serves as many of `takers` as it can, with one atomic per word that
// gives pages, which asks for exactly as many bits as are wanted of it. What others took meanwhile is simply not served.
// Who calls: the lanes of `mask`. `word`: this lane's, when `inside`. `takers`: uniform, within `mask`, at least one.
// Returns this lane's page or NO_PAGE. `seen`: whether any lane saw a free page; uniform.
GALATEA_INLINE u64 claim_window(const Heap& heap, u32 mask, u32 takers, u32 word, bool inside, bool& seen,
                                HeapTally& tally) {
    const u64 bits = inside ? __ldcg(heap.bitmap + word) : 0;
    const u32 free = __popcll(bits);
    const u32 wanted = __popc(takers), rank = __popc(takers & lanes_before());
    bool taker = (takers >> lane() & 1u) != 0;
    if (taker) tally.step();
    u32 owner;      // lane whose word serves this one
    u32 bit;        // which bit of it
    u64 asked = 0;  // bits of this lane's own word that it claims for others
    const u32 enough = __ballot_sync(mask, free >= wanted);
    if (enough != 0) {
        // One word serves all.
        seen = true;
        owner = __ffs(enough) - 1;
        const u64 source = __shfl_sync(mask, bits, owner);
        const u32 first = __ffsll(i64(source)) - 1;
        const u64 run = source >> first;
        if ((run & (run + 1)) == 0) {
            // Its free pages are neighbours, as they are in a pool that is hardly used.
            bit = first + rank;
            asked = low_bits(wanted) << first;
        } else {
            bit = select_bit(source, taker ? rank : 0);
            asked = source & low_bits(__shfl_sync(mask, bit, 31 - __clz(takers)) + 1);
        }
        if (lane() != owner) asked = 0;
    } else {
        // Words serve takers in lane order.
        u32 owners = __ballot_sync(mask, free != 0);
        seen = owners != 0;
        if (!seen) return NO_PAGE;
        u32 before = 0, nth = 0, quota = 0;
        owner = __ffs(owners) - 1;
        while (owners != 0 && before < wanted) {
            const u32 source = __ffs(owners) - 1;
            owners &= owners - 1;
            const u32 offered = __shfl_sync(mask, free, source);
            if (rank >= before && rank < before + offered) { owner = source; nth = rank - before; }
            if (lane() == source) quota = offered < wanted - before ? offered : wanted - before;
            before += offered;
        }
        taker = taker && rank < before;
        bit = select_bit(__shfl_sync(mask, bits, owner), taker ? nth : 0);
        if (quota == free) asked = bits;
        else if (quota != 0) asked = bits & low_bits(select_bit(bits, quota - 1) + 1);
    }
    u64 old = 0;
    if (asked != 0) {
        tally.atomic();
        old = atomicAnd(heap.bitmap + word, ~asked);
    }
    const u64 given = __shfl_sync(mask, old, owner);
    const u32 from = __shfl_sync(mask, word, owner);
    if (!taker) return NO_PAGE;
    if ((given >> bit & 1) != 0) return u64(from) * 64 + bit;
    tally.collision();
    return NO_PAGE;
}

// Looks at every word once from word `start` on, round the end, and serves `takers` as far as there are pages: the last resort
// of the strategies that walk at random (defects: Algorithms 1 to 3 never end when memory is exhausted, and the last page of T
// costs T looks). A word is left behind only when it was seen empty, or everybody is served.
// Who calls: the lanes of `mask`. Returns this lane's page or NO_PAGE.
GALATEA_NOINLINE u64 sweep_bitmap(const Heap heap, u32 mask, u32 takers, u32 start, HeapTally& tally) {
    const u32 lanes = __popc(mask), place = __popc(mask & lanes_before());
    const u32 words = heap_words(heap);
    start = __shfl_sync(mask, start, __ffs(mask) - 1);
    u64 page = NO_PAGE;
    if ((takers >> lane() & 1u) != 0) tally.sweep();
    for (u32 base = 0; base < words && takers != 0;) {
        u32 word = start + base + place;
        if (word >= words) word -= words;
        bool seen;
        const u64 got = claim_window(heap, mask, takers, word, base + place < words, seen, tally);
        if (got != NO_PAGE) page = got;
        takers = __ballot_sync(mask, (takers >> lane() & 1u) != 0 && page == NO_PAGE);
        if (!seen) base += lanes;
    }
    return page;
}

// Bits of the words of several lanes, together: one atomic per word. Who calls: the lanes of `mask`. A lane without bits passes
// bit = 0. Returns, on one lane per word, the word's bits united (0 elsewhere), and the number of lanes they came from.
GALATEA_INLINE u64 united_bits(u32 mask, u64 word, u64 bits, u32& lanes) {
    const u32 peers = __match_any_sync(mask, bits == 0 ? 0xffffffffu : u32(word));
    const u32 low = __reduce_or_sync(peers, u32(bits)), high = __reduce_or_sync(peers, u32(bits >> 32));
    lanes = __popc(peers);
    return lane() == u32(__ffs(peers) - 1) ? u64(high) << 32 | low : 0;
}

// Sets the bits of freed pages. Who calls: the lanes of `mask`; a lane that frees nothing passes NO_PAGE. `after` is called on
// one lane per word with the word and the number of pages that became free in it.
template <typename After>
GALATEA_INLINE void give_bits(const Heap& heap, u32 mask, u64 page, After after) {
    // Defect: a free of a foreign pointer wrote outside the bitmap.
    if (page != NO_PAGE && page >= heap.page_count) {
        heap_error(heap, HEAP_FOREIGN, page);
        page = NO_PAGE;
    }
    u32 lanes;
    const u64 bits = united_bits(mask, page / 64, page == NO_PAGE ? 0 : 1ull << (page & 63), lanes);
    if (bits == 0) return;
    if (HEAP_CHECKS) {
        // Defect: a double free was silent, and cleared a bit somebody else may own by then. The latter cannot be told from
        // a right free; a page that is free, or freed twice at once, can.
        const u64 old = atomicOr(heap.bitmap + page / 64, bits);
        if ((old & bits) != 0 || u32(__popcll(bits)) != lanes) heap_error(heap, HEAP_DOUBLE_FREE, page);
        const u32 freed = __popcll(bits & ~old);
        if (freed != 0) after(page / 64, freed);
    } else {
        atomicOr(heap.bitmap + page / 64, bits);
        after(page / 64, u32(__popcll(bits)));
    }
}

}  // namespace galatea
