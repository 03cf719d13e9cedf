// Warp scope: the default page search. A warp reserves all its pages in a superblock with one atomic, then
// claims them with one more, from a window of 32 words that is one coalesced load. It derives from the random
// walk over a bitmap (Pham et al. 2022, 4.1), from SlabAlloc's one atomic per claim (Ashkiani et al. 2018),
// and from the split of accounting and tracking of Gelado and Garland (2019), here per superblock.
// Differences from the paper: starts are stratified, not random; requests are made per warp, not per thread;
// and the balance, not the bitmap, determines whether pages are free, so exhaustion is exact and a drained
// region costs one load.
#pragma once

#include "galatea/heap/claim.cuh"

namespace galatea {

struct WindowHeap {
    // See HeapSearch::take in heap/one_page.cuh. The reservation and the claim are in flight at the same
    // time: a warp that claimed bits without obtaining a reservation for them releases them, and the warps
    // with the reservations probe again.
    template <typename Lanes>
    static GALATEA_INLINE u64 take(const HeapView& heap, Lanes lanes, bool want, HeapWalk& walk, HeapTally& tally) {
        const u32 takers = lanes.ballot(want);
        if (takers == 0) return NO_PAGE;
        const u32 words = heap.superblocks * SUPERBLOCK_WORDS;
        u32 position = u32(walk.position >> 32);
        u64 asked = 0;
        // The address is the leader's own, computed before the shuffle: if the compiler can prove that the
        // address is uniform in the warp, it generates an aggregated atomic, which waits for the result.
        if (lanes.leads())
            asked = balance_ask(heap.balances + __umulhi(position, words) / SUPERBLOCK_WORDS, __popc(takers), tally);
        position = lanes.shuffle(position, lanes.leader());
        const u32 start = __umulhi(position, words), superblock = start / SUPERBLOCK_WORDS;
        const bool upper = position * words >> 31 != 0;
        bool seen;
        const u32 word = superblock * SUPERBLOCK_WORDS + (start + lanes.place()) % SUPERBLOCK_WORDS;
        const u64 page = claim_window(heap, lanes, takers, word, true, upper, seen, tally);
        const bool lacking = lanes.leads() && Balance(asked).available < i32(__popc(takers));
        if (lanes.ballot(lacking || (want && page == NO_PAGE)) == 0) return page;
        const Found found = settle(heap, lanes, takers, page, start, asked, tally);
        if (found.position != 0) walk.position = u64(found.position) << 32;
        return found.page;
    }

    // Allocates one page, which is returned to all of `lanes`, or NO_PAGE: the same as `take` for one taker,
    // in a third of its code.
    template <typename Lanes>
    static GALATEA_INLINE u64 take_one(const HeapView& heap, Lanes lanes, HeapWalk& walk, HeapTally& tally) {
        const u32 leader = lanes.leader(), words = heap.superblocks * SUPERBLOCK_WORDS;
        const u32 position = lanes.shuffle(u32(walk.position >> 32), leader);
        u32 start = __umulhi(position, words), superblock = start / SUPERBLOCK_WORDS;
        bool upper = position * words >> 31 != 0, reserved = false;
        u64 asked = lanes.leads() ? balance_ask(heap.balances + superblock, 1, tally) : 0;
        HeapWalk draws{walk.position};
        for (;;) {
            bool seen;
            const u32 word = superblock * SUPERBLOCK_WORDS + (start + lanes.place()) % SUPERBLOCK_WORDS;
            const u64 page = claim_one(heap, lanes, word, upper, seen, tally);
            if (!reserved) {
                const u32 got = lanes.leads() ? balance_settle(heap.balances + superblock, asked, 1, tally) : 0;
                reserved = lanes.shuffle(got, leader) != 0;
            }
            if (reserved) {
                if (page != NO_PAGE) return page;
                // The reserved page exists: in other words, or with a warp that is about to release it.
                start += lanes.count();
                upper = false;
                if (!seen) __nanosleep(32);
                continue;
            }
            // The claimed page is reserved by another warp.
            if (page != NO_PAGE && lanes.leads()) {
                tally.atomic();
                free_bits(heap.bitmap + page / 64, 1ull << (page & 63));
            }
            superblock = stocked(heap, lanes, draws, tally);
            if (superblock == NO_SUPERBLOCK) return NO_PAGE;
            // The next call starts where this one found its page, or near it in a pool of many superblocks.
            walk.position = u64(superblock * (0xffffffffu / heap.superblocks + 1)) << 32;
            if (lanes.leads()) asked = balance_ask(heap.balances + superblock, 1, tally);
        }
    }

    template <typename Lanes>
    static GALATEA_INLINE void give(const HeapView& heap, Lanes lanes, u64 page) {
        give_bits(heap, lanes, page, [&](u32 word, u32 freed) {
            const u32 superblock = word / SUPERBLOCK_WORDS;
            // Only the thread that makes an empty balance positive updates the summary.
            if (balance_return(heap.balances + superblock, freed) == 0) announce(heap, superblock / GROUP_SUPERBLOCKS);
        });
    }

private:
    // A page, and the next position to probe; 0: the position of the walk.
    struct Found {
        u64 page;
        u32 position;
    };

    // Matches pages with reservations after the first probe, then searches for the missing ones.
    template <typename Lanes>
    static GALATEA_NOINLINE Found settle(const HeapView heap, Lanes lanes, u32 takers, u64 page, u32 start, u64 asked,
                                         HeapTally& tally) {
        const u32 leader = lanes.leader(), superblock = start / SUPERBLOCK_WORDS;
        u32 reserved = 0;
        if (lane() == leader) reserved = balance_settle(heap.balances + superblock, asked, __popc(takers), tally);
        reserved = lanes.shuffle(reserved, leader);
        // More pages than reserved: the other bits are reserved by other warps.
        const u32 got = lanes.ballot(page != NO_PAGE);
        if (page != NO_PAGE && (first_of(got, reserved) >> lane() & 1u) == 0) {
            tally.atomic();
            free_bits(heap.bitmap + page / 64, 1ull << (page & 63));
            page = NO_PAGE;
        }
        // Fewer: the reservation holds, so the pages are free.
        if (u32(__popc(got)) < reserved) {
            const u64 more = claim(heap, lanes, first_of(takers & ~got, reserved - __popc(got)), superblock,
                                   start + lanes.count(), tally);
            if (more != NO_PAGE) page = more;
        }
        if (reserved == u32(__popc(takers))) return Found{page, 0};
        return search(heap, lanes, takers, page, superblock, start, tally);
    }

    // Claims one page of a superblock for each of `takers`, which hold that many reservations there: it
    // cannot fail, only be delayed. It is not inlined, so that it is compiled once for its two callers.
    template <typename Lanes>
    static GALATEA_NOINLINE u64 claim(const HeapView heap, Lanes lanes, u32 takers, u32 superblock, u32 start, HeapTally& tally) {
        const u32 place = lanes.place();
        u64 page = NO_PAGE;
        while (takers != 0) {
            bool seen;
            const u32 word = superblock * SUPERBLOCK_WORDS + (start + place) % SUPERBLOCK_WORDS;
            const u64 got = claim_window(heap, lanes, takers, word, true, false, seen, tally);
            if (got != NO_PAGE) page = got;
            takers = lanes.ballot((takers >> lane() & 1u) != 0 && page == NO_PAGE);
            start += lanes.count();  // a whole warp sees the same window again, fewer lanes see the next words
            // Another warp holds the pages and is about to release them.
            if (!seen) __nanosleep(32);
        }
        return page;
    }

    // Searches group by group, for lanes that want a page and have none: the balances of a group are one
    // load, and several superblocks serve one warp. After the first group, it takes any group of the summary
    // at random: warps that all proceeded to the next one would pile up.
    template <typename Lanes>
    static GALATEA_INLINE Found search(const HeapView& heap, Lanes lanes, u32 wanting, u64 page, u32 superblock, u32 start,
                                       HeapTally& tally) {
        u32 group = superblock / GROUP_SUPERBLOCKS;
        HeapWalk walk{u64(start) << 32 | superblock};
        for (;;) {
            u32 takers = lanes.ballot((wanting >> lane() & 1u) != 0 && page == NO_PAGE);
            u32 from = superblock;
            const bool empty = search_group(heap, lanes, takers, page, group, from, start, tally);
            if (takers == 0) {
                // The next call starts at the position where this one found its last page.
                return Found{page, u32((u64(from) << 32) / heap.superblocks) + 1};
            }
            const u32 random = lanes.shuffle(u32(scaled(walk.next(), heap.groups)), lanes.leader());
            const u32 next = listed_group(heap, lanes, random, empty ? group : NO_GROUP);
            if (next != NO_GROUP) { group = next; continue; }
            if ((takers >> lane() & 1u) != 0) tally.sweep();
            group = sweep(heap, lanes);
            if (group == NO_GROUP) return Found{page, 0};
        }
    }

    // Serves `takers` from one group, starting at its superblock `from`, which becomes the last one that
    // served. Removes the served lanes from `takers`; returns whether the group was empty.
    template <typename Lanes>
    static GALATEA_INLINE bool search_group(const HeapView& heap, Lanes lanes, u32& takers, u64& page, u32 group, u32& from, u32 start,
                                            HeapTally& tally) {
        const u32 count = lanes.count(), place = lanes.place();
        const u32 first = from + place;
        bool empty = true;
        for (u32 base = 0; base < GROUP_SUPERBLOCKS && takers != 0; base += count) {
            const u32 own = group * GROUP_SUPERBLOCKS + (first + base) % GROUP_SUPERBLOCKS;
            const u32 free = base + place < GROUP_SUPERBLOCKS ? Balance(__ldcg(heap.balances + own)).total() : 0;
            if ((takers >> lane() & 1u) != 0) tally.step();
            // Distributes the reservations in lane order.
            u32 owners = lanes.ballot(free != 0);
            empty = empty && owners == 0;
            u32 wanted = __popc(takers), quota = 0;
            while (owners != 0 && wanted != 0) {
                const u32 source = __ffs(owners) - 1;
                owners &= owners - 1;
                const u32 offered = lanes.shuffle(free, source);
                const u32 asked = offered < wanted ? offered : wanted;
                if (lane() == source) quota = asked;
                wanted -= asked;
            }
            const u32 reserved = quota == 0 ? 0 : balance_reserve(heap.balances + own, quota, tally);
            owners = lanes.ballot(reserved != 0);
            while (owners != 0) {
                const u32 source = __ffs(owners) - 1;
                owners &= owners - 1;
                from = lanes.shuffle(own, source);
                const u32 served = first_of(takers, lanes.shuffle(reserved, source));
                const u64 got = claim(heap, lanes, served, from, start, tally);
                if (got != NO_PAGE) page = got;
                takers &= ~served;
            }
        }
        return empty;
    }

    static constexpr u32 NO_SUPERBLOCK = 0xffffffffu;

    // A superblock that was seen to have a page, starting at a random one and wrapping around; none if each
    // was seen empty. The start is random because warps that all proceeded to the next one would pile up.
    template <typename Lanes>
    static GALATEA_INLINE u32 stocked(const HeapView& heap, Lanes lanes, HeapWalk& draws, HeapTally& tally) {
        const u32 from = lanes.shuffle(u32(scaled(draws.next(), heap.superblocks)), lanes.leader());
        if (lanes.leads()) tally.sweep();
        for (u32 base = 0; base < heap.superblocks; base += lanes.count()) {
            const u32 offset = base + lanes.place();
            const u32 own = offset < heap.superblocks - from ? from + offset : offset - (heap.superblocks - from);
            const bool free = offset < heap.superblocks && Balance(__ldcg(heap.balances + own)).total() != 0;
            const u32 found = lanes.ballot(free);
            if (found != 0) return lanes.shuffle(own, __ffs(found) - 1);
        }
        return NO_SUPERBLOCK;
    }

    static GALATEA_INLINE void announce(const HeapView& heap, u32 group) {
        __threadfence();  // the balance is visible before the bit
        atomicOr(heap.summary + group / 64, 1ull << (group & 63));
    }

    // Removes a group that was seen empty from the summary. The lane that clears the bit checks again: a page
    // may have been freed in between, and the bit set before it was cleared.
    template <typename Lanes>
    static GALATEA_INLINE void retract(const HeapView& heap, Lanes lanes, u32 group) {
        const u32 count = lanes.count(), place = lanes.place(), leader = lanes.leader();
        const u64 bit = 1ull << (group & 63);
        const bool cleared = lane() == leader && (atomicAnd(heap.summary + group / 64, ~bit) & bit) != 0;
        if (lanes.ballot(cleared) == 0) return;
        __threadfence();
        lanes.sync();
        bool refilled = false;
        for (u32 i = place; i < GROUP_SUPERBLOCKS; i += count)
            refilled = refilled || Balance(__ldcg(heap.balances + group * GROUP_SUPERBLOCKS + i)).total() != 0;
        if (lanes.ballot(refilled) != 0 && lane() == leader) announce(heap, group);
    }

    static constexpr u32 NO_GROUP = 0xffffffffu;

    // The first group of the summary from `from` on, wrapping around. `empty`: a group that was seen empty;
    // it is not returned, and is removed from the summary if it is listed.
    template <typename Lanes>
    static GALATEA_INLINE u32 listed_group(const HeapView& heap, Lanes lanes, u32 from, u32 empty) {
        const u32 count = lanes.count(), place = lanes.place();
        const u32 words = (heap.groups + 63) / 64;
        const u64 before = low_bits(from & 63);
        u32 next = NO_GROUP;
        bool listed = false;
        for (u32 base = 0; base <= words && next == NO_GROUP; base += count) {
            const u32 i = base + place;
            const u32 word = (from / 64 + i) % words;
            u64 bits = i <= words ? __ldcg(heap.summary + word) : 0;
            if (empty != NO_GROUP && word == empty / 64) {
                const u64 bit = 1ull << (empty & 63);
                listed = listed || (bits & bit) != 0;
                bits &= ~bit;
            }
            if (i == 0) bits &= ~before;
            if (i == words) bits &= before;
            const u32 found = lanes.ballot(bits != 0);
            if (found == 0) continue;
            const u32 first = word * 64 + u32(__ffsll(i64(bits)) - 1);
            next = lanes.shuffle(first, __ffs(found) - 1);
        }
        if (lanes.ballot(listed) != 0) retract(heap, lanes, empty);
        return next;
    }

    // Checks every balance, since the summary is a hint: returns a group with pages, or none if each
    // superblock was seen empty.
    template <typename Lanes>
    static GALATEA_INLINE u32 sweep(const HeapView& heap, Lanes lanes) {
        const u32 count = lanes.count(), place = lanes.place();
        for (u32 base = 0; base < heap.superblocks; base += count * SWEEP_BALANCES) {
            const u32 first = base + place * SWEEP_BALANCES;
            u32 free = 0;
            // After the last superblock there are padding balances, which are always empty, up to a multiple
            // of a warp's.
            if (first < heap.superblocks)
                for (u32 i = 0; i < SWEEP_BALANCES; ++i) free += Balance(__ldcg(heap.balances + first + i)).total();
            const u32 found = lanes.ballot(free != 0);
            if (found != 0) return lanes.shuffle(first, __ffs(found) - 1) / GROUP_SUPERBLOCKS;
        }
        return NO_GROUP;
    }
};

}  // namespace galatea
