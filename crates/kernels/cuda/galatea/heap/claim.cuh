// Warp scope: claiming bits of the bitmap (bits.cuh) for the lanes of a warp, and releasing them. Shared by
// the searches that use a bitmap.
#pragma once

#include "galatea/heap/view.cuh"

namespace galatea {

// Probes a window of words, one per lane: serves as many of `takers` as possible, with one atomic per word
// that provides pages, which requests exactly the bits wanted of it. Takers whose bits were taken by others
// meanwhile are not served. Called by `lanes`. `word`: this lane's word, if `inside`. `takers`: uniform, a
// subset of these lanes, at least one. `upper`: if one word has twice the wanted number of pages, the second
// half is preferred, so that two warps at one word do not collide. Returns this lane's page or NO_PAGE.
// `seen`: whether any lane saw a free page; uniform.
template <typename Lanes>
GALATEA_INLINE u64 claim_window(const HeapView& heap, Lanes lanes, u32 takers, u32 word, bool inside, bool upper,
                                bool& seen, HeapTally& tally) {
    const u64 bits = inside ? __ldcg(heap.bitmap + word) : 0;
    const u32 free = __popcll(bits);
    const u32 wanted = __popc(takers), rank = __popc(takers & lanes_before());
    bool taker = (takers >> lane() & 1u) != 0;
    if (taker) tally.step();
    u32 owner;      // lane with the word that serves this one
    u32 bit;        // bit of that word
    u64 asked = 0;  // bits of this lane's own word that it claims for others
    const u32 enough = lanes.ballot(free >= wanted);
    if (enough != 0) {
        // One word serves all takers.
        seen = true;
        owner = __ffs(enough) - 1;
        const u64 source = lanes.shuffle(bits, owner);
        const u32 first = __ffsll(i64(source)) - 1;
        const u64 run = source >> first;
        if ((run & (run + 1)) == 0) {
            // Its free pages are consecutive, as in a pool that is mostly free.
            const u32 begin = upper && (run >> (2 * wanted - 1) & 1) != 0 ? first + wanted : first;
            bit = begin + rank;
            asked = low_bits(wanted) << begin;
        } else {
            bit = select_bit(source, taker ? rank : 0);
            asked = source & low_bits(lanes.shuffle(bit, 31 - __clz(takers)) + 1);
        }
        if (lane() != owner) asked = 0;
    } else {
        // Words serve takers in lane order.
        u32 owners = lanes.ballot(free != 0);
        seen = owners != 0;
        if (!seen) return NO_PAGE;
        u32 before = 0, nth = 0, quota = 0;
        owner = __ffs(owners) - 1;
        while (owners != 0 && before < wanted) {
            const u32 source = __ffs(owners) - 1;
            owners &= owners - 1;
            const u32 offered = lanes.shuffle(free, source);
            if (rank >= before && rank < before + offered) { owner = source; nth = rank - before; }
            if (lane() == source) quota = offered < wanted - before ? offered : wanted - before;
            before += offered;
        }
        taker = taker && rank < before;
        bit = select_bit(lanes.shuffle(bits, owner), taker ? nth : 0);
        if (quota == free) asked = bits;
        else if (quota != 0) asked = bits & low_bits(select_bit(bits, quota - 1) + 1);
    }
    u64 old = 0;
    if (asked != 0) {
        tally.atomic();
        old = claim_bits(heap.bitmap + word, asked);
    }
    const u64 given = lanes.shuffle(old, owner);
    const u32 from = lanes.shuffle(word, owner);
    if (!taker) return NO_PAGE;
    if ((given >> bit & 1) != 0) return u64(from) * 64 + bit;
    tally.collision();
    return NO_PAGE;
}

// Probes such a window for one page, which is returned to all of `lanes`: a small part of the code above, for
// callers that need only one. `upper`, `seen` as above.
template <typename Lanes>
GALATEA_INLINE u64 claim_one(const HeapView& heap, Lanes lanes, u32 word, bool upper, bool& seen, HeapTally& tally) {
    const u64 bits = __ldcg(heap.bitmap + word);
    if (lanes.leads()) tally.step();
    const u32 owners = lanes.ballot(bits != 0);
    seen = owners != 0;
    if (!seen) return NO_PAGE;
    const u32 owner = __ffs(owners) - 1;
    u64 page = NO_PAGE;
    if (lane() == owner) {
        const u64 rest = bits & (bits - 1);
        const u32 bit = __ffsll(i64(upper && rest != 0 ? rest : bits)) - 1;
        tally.atomic();
        if (claim_bit(heap.bitmap + word, bit)) page = u64(word) * 64 + bit;
        else tally.collision();
    }
    return lanes.shuffle(page, owner);
}

// Probes every word once from word `start` on, wrapping around, and serves `takers` until no page is left:
// the last resort of the random walks (defects: Algorithms 1 to 3 never end when memory is exhausted, and the
// last page of T costs T probes). The sweep leaves a word only if it was seen empty, or all takers are
// served. Called by `lanes`. Returns this lane's page or NO_PAGE.
template <typename Lanes>
GALATEA_NOINLINE u64 sweep_bitmap(const HeapView heap, Lanes lanes, u32 takers, u32 start, HeapTally& tally) {
    const u32 count = lanes.count(), place = lanes.place();
    const u32 words = heap_words(heap);
    start = lanes.shuffle(start, lanes.leader());
    u64 page = NO_PAGE;
    if ((takers >> lane() & 1u) != 0) tally.sweep();
    for (u32 base = 0; base < words && takers != 0;) {
        const u32 word = wrapped(start + base + place, words);
        bool seen;
        const u64 got = claim_window(heap, lanes, takers, word, base + place < words, false, seen, tally);
        if (got != NO_PAGE) page = got;
        takers = lanes.ballot((takers >> lane() & 1u) != 0 && page == NO_PAGE);
        if (!seen) base += count;
    }
    return page;
}

// Combines the lanes' bits by word, so that one atomic per word suffices. Called by `lanes`; a lane without
// bits passes 0. One lane per word returns the combined bits, the others 0; `givers`: the number of lanes
// that contributed.
template <typename Lanes>
GALATEA_INLINE u64 united_bits(Lanes lanes, u32 word, u64 bits, u32& givers) {
    const u32 giving = lanes.ballot(bits != 0);
    givers = 1;
    if (giving == 0) return 0;
    const u32 first = __ffs(giving) - 1;
    const u32 common = lanes.shuffle(word, first);
    if (lanes.ballot(bits != 0 && word != common) == 0) {
        // One word, as when a warp frees the pages that it allocated.
        givers = __popc(giving);
        const u64 all = u64(lanes.unite(u32(bits >> 32))) << 32 | lanes.unite(u32(bits));
        return lane() == first ? all : 0;
    }
    const u32 peers = lanes.match(bits == 0 ? 0xffffffffu : word);
    const bool leads = bits != 0 && lane() == u32(__ffs(peers) - 1);
    givers = __popc(peers);
    u64 all = bits;
    // Lanes that are alone in their word are done; the others are combined word by word.
    for (u32 shared = lanes.ballot(leads && givers > 1); shared != 0; shared &= shared - 1) {
        const u32 source = __ffs(shared) - 1;
        const u32 one = lanes.shuffle(word, source);
        const u64 own = word == one ? bits : 0;
        const u64 united = u64(lanes.unite(u32(own >> 32))) << 32 | lanes.unite(u32(own));
        if (lane() == source) all = united;
    }
    return leads ? all : 0;
}

// Sets the bits of freed pages. Called by `lanes`; a lane that frees nothing passes NO_PAGE. `after` is
// called on one lane per word with the word and the number of pages that became free in it.
template <typename Lanes, typename After>
GALATEA_INLINE void give_bits(const HeapView& heap, Lanes lanes, u64 page, After after) {
    // Defect: a free of a foreign pointer wrote outside the bitmap.
    if (page != NO_PAGE && page >= heap.page_count) {
        heap_error(heap, HEAP_FOREIGN, page);
        page = NO_PAGE;
    }
    u32 givers;
    const u32 word = u32(page / 64);
    const u64 bits = united_bits(lanes, word, page == NO_PAGE ? 0 : 1ull << (page & 63), givers);
    if (bits == 0) return;
    if (HEAP_CHECKS) {
        // Defect: a double free was silent, and cleared a bit that another owner may have by then. The latter
        // cannot be distinguished from a valid free; a page that is free, or freed twice at once, can.
        const u64 old = free_bits(heap.bitmap + word, bits);
        if ((old & bits) != 0 || u32(__popcll(bits)) != givers) heap_error(heap, HEAP_DOUBLE_FREE, page);
        const u32 freed = __popcll(bits & ~old);
        if (freed != 0) after(word, freed);
    } else {
        free_bits(heap.bitmap + word, bits);
        after(word, u32(__popcll(bits)));
    }
}

}  // namespace galatea
