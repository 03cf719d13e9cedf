// Warp scope: the default strategy. A warp reserves all its pages in a superblock with one atomic, then claims them with one
// more, from a window of 32 words that is one coalesced load. Descends from the random walk over a bitmap (Pham et al. 2022,
// 4.1), from SlabAlloc's one atomic per claim (Ashkiani et al. 2018), and from the split of accounting and tracking of Gelado
// and Garland (2019), here per superblock. Against the paper: starts are stratified, not random; a warp asks, not a thread; the
// balance, not the bitmap, says whether there is anything, so exhaustion is exact and a drained region costs one load.
#pragma once

#include "galatea/heap/claim.cuh"

namespace galatea {

struct WindowHeap {
    // As HeapStrategy::take in heap.cuh.
    static GALATEA_INLINE u64 take(const Heap& heap, u32 mask, bool want, HeapWalk& walk, HeapTally& tally) {
        const u32 takers = __ballot_sync(mask, want);
        if (takers == 0) return NO_PAGE;
        const u32 leader = __ffs(mask) - 1;
        walk.position = __shfl_sync(mask, walk.position, leader);
        const u64 start = scaled(walk.position, u64(heap.superblocks) * SUPERBLOCK_WORDS);
        const u64 superblock = start / SUPERBLOCK_WORDS;
        u32 reserved = 0;
        if (lane() == leader) reserved = balance_reserve(heap.balances + superblock, __popc(takers), tally);
        reserved = __shfl_sync(mask, reserved, leader);
        const u64 page = claim(heap, mask, first_of(takers, reserved), superblock, u32(start), tally);
        if (reserved == u32(__popc(takers))) return page;
        return search(heap, mask, want, page, superblock, walk, tally);
    }

    static GALATEA_INLINE void give(const Heap& heap, u32 mask, u64 page) {
        give_bits(heap, mask, page, [&](u64 word, u32 freed) {
            const u64 superblock = word / SUPERBLOCK_WORDS;
            // Only who makes an empty balance positive tells the summary.
            if (balance_return(heap.balances + superblock, freed) == 0) announce(heap, superblock / GROUP_SUPERBLOCKS);
        });
    }

private:
    // One page of a superblock for each of `takers`, who hold that many reservations there: it cannot fail, only be late.
    static GALATEA_INLINE u64 claim(const Heap& heap, u32 mask, u32 takers, u64 superblock, u32 start, HeapTally& tally) {
        const u32 place = __popc(mask & lanes_before());
        u64 page = NO_PAGE;
        while (takers != 0) {
            bool seen;
            const u64 word = superblock * SUPERBLOCK_WORDS + (start + place) % SUPERBLOCK_WORDS;
            const u64 got = claim_window(heap, mask, takers, word, place < SUPERBLOCK_WORDS, seen, tally);
            if (got != NO_PAGE) page = got;
            takers = __ballot_sync(mask, (takers >> lane() & 1u) != 0 && page == NO_PAGE);
            start += __popc(mask);  // a whole warp sees the same window again, fewer lanes see the next words
        }
        return page;
    }

    // Group by group, for lanes that want a page and have none: the balances of a group are one load, and several superblocks
    // serve one warp. The summary tells which group is next.
    static GALATEA_NOINLINE u64 search(const Heap& heap, u32 mask, bool want, u64 page, u64 superblock, HeapWalk& walk,
                                       HeapTally& tally) {
        u32 takers = __ballot_sync(mask, want && page == NO_PAGE);
        u64 group = superblock / GROUP_SUPERBLOCKS;
        u32 first = u32(superblock % GROUP_SUPERBLOCKS);
        for (;;) {
            const u64 from = search_group(heap, mask, takers, page, group, first, u32(walk.next()), tally);
            takers = __ballot_sync(mask, want && page == NO_PAGE);
            if (takers == 0) {
                // The next call starts where this one found its last page.
                walk.position = (~0ull / heap.superblocks + 1) * from + (walk.position & 0xffffffffu);
                return page;
            }
            group = next_group(heap, mask, group);
            if (group == NO_PAGE) {
                if ((takers >> lane() & 1u) != 0) tally.sweep();
                group = sweep(heap, mask);
            }
            if (group == NO_PAGE) return page;
        }
    }

    // Serves `takers` from one group, from superblock `first` of it on, and in each from word `start` on. The last superblock
    // that served.
    static GALATEA_INLINE u64 search_group(const Heap& heap, u32 mask, u32 takers, u64& page, u64 group, u32 first,
                                           u32 start, HeapTally& tally) {
        const u32 lanes = __popc(mask), place = __popc(mask & lanes_before());
        u64 from = group * GROUP_SUPERBLOCKS;
        bool empty = true;
        for (u32 base = 0; base < GROUP_SUPERBLOCKS && takers != 0; base += lanes) {
            const u64 own = group * GROUP_SUPERBLOCKS + (first + base + place) % GROUP_SUPERBLOCKS;
            const u32 free = base + place < GROUP_SUPERBLOCKS ? Balance(__ldcg(heap.balances + own)).total() : 0;
            if ((takers >> lane() & 1u) != 0) tally.step();
            // Who reserves how much, in lane order.
            u32 owners = __ballot_sync(mask, free != 0);
            empty = empty && owners == 0;
            u32 wanted = __popc(takers), quota = 0;
            while (owners != 0 && wanted != 0) {
                const u32 source = __ffs(owners) - 1;
                owners &= owners - 1;
                const u32 offered = __shfl_sync(mask, free, source);
                const u32 asked = offered < wanted ? offered : wanted;
                if (lane() == source) quota = asked;
                wanted -= asked;
            }
            const u32 reserved = quota == 0 ? 0 : balance_reserve(heap.balances + own, quota, tally);
            owners = __ballot_sync(mask, reserved != 0);
            while (owners != 0) {
                const u32 source = __ffs(owners) - 1;
                owners &= owners - 1;
                from = __shfl_sync(mask, own, source);
                const u32 served = first_of(takers, __shfl_sync(mask, reserved, source));
                const u64 got = claim(heap, mask, served, from, start, tally);
                if (got != NO_PAGE) page = got;
                takers &= ~served;
            }
        }
        if (empty && takers != 0) retract(heap, mask, group);
        return from;
    }

    static GALATEA_INLINE void announce(const Heap& heap, u64 group) {
        __threadfence();  // the balance is visible before the bit
        atomicOr(heap.summary + group / 64, 1ull << (group & 63));
    }

    // Takes a group that was seen empty out of the summary, and looks again: who freed in between may have set the bit before.
    static GALATEA_INLINE void retract(const Heap& heap, u32 mask, u64 group) {
        const u32 lanes = __popc(mask), place = __popc(mask & lanes_before());
        if (lane() == u32(__ffs(mask) - 1)) atomicAnd(heap.summary + group / 64, ~(1ull << (group & 63)));
        __threadfence();
        __syncwarp(mask);
        bool refilled = false;
        for (u32 i = place; i < GROUP_SUPERBLOCKS; i += lanes)
            refilled = refilled || Balance(__ldcg(heap.balances + group * GROUP_SUPERBLOCKS + i)).total() != 0;
        if (__any_sync(mask, refilled) && lane() == u32(__ffs(mask) - 1)) announce(heap, group);
    }

    // The first group after `group`, round the end, that the summary says may have pages; NO_PAGE: none.
    static GALATEA_INLINE u64 next_group(const Heap& heap, u32 mask, u64 group) {
        const u32 lanes = __popc(mask), place = __popc(mask & lanes_before());
        const u64 words = (u64(heap.groups) + 63) / 64;
        const u64 after = ~low_bits(u32(group & 63) + 1);
        for (u64 base = 0; base <= words; base += lanes) {
            const u64 i = base + place;
            const u64 word = (group / 64 + i) % words;
            u64 bits = i <= words ? __ldcg(heap.summary + word) : 0;
            if (i == 0) bits &= after;
            if (i == words) bits &= ~after;
            const u32 found = __ballot_sync(mask, bits != 0);
            if (found == 0) continue;
            const u64 first = word * 64 + u32(__ffsll(i64(bits)) - 1);
            return __shfl_sync(mask, first, __ffs(found) - 1);
        }
        return NO_PAGE;
    }

    // Every balance, since the summary is a hint: a group with pages; NO_PAGE: each superblock was seen empty.
    static GALATEA_INLINE u64 sweep(const Heap& heap, u32 mask) {
        const u32 lanes = __popc(mask), place = __popc(mask & lanes_before());
        for (u64 base = 0; base < heap.superblocks; base += lanes * SWEEP_BALANCES) {
            const u64 first = base + place * SWEEP_BALANCES;
            u32 free = 0;
            // Beyond the last superblock there are balances that are always empty, up to a multiple of a warp's.
            if (first < heap.superblocks)
                for (u32 i = 0; i < SWEEP_BALANCES; ++i) free += Balance(__ldcg(heap.balances + first + i)).total();
            const u32 found = __ballot_sync(mask, free != 0);
            if (found != 0) return __shfl_sync(mask, first, __ffs(found) - 1) / GROUP_SUPERBLOCKS;
        }
        return NO_PAGE;
    }
};

}  // namespace galatea
