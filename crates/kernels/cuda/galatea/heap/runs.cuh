// Warp scope: RW_malloc, blocks of consecutive pages, here called units (Pham et al. 2022, 4.3 and Algorithm
// 3).
//
// Runs of n units begin at multiples of n while such positions are free: requests of one size then fill the
// pool without gaps, whereas runs at arbitrary positions would leave holes too small for another run, a
// quarter of the pool (Renyi's parking constant). A warp first probes random windows of words; each lane
// offers a run that begins in its word to one lane that needs it. Runs longer than a word, and the last ones,
// are found by a scan that carries free units from word to word; its last pass accepts any position. Within a
// word a claim is a compare-and-swap, all or nothing; across words it proceeds word by word in ascending
// order. Small requests of a warp are combined into one run and split.
//
// `own` has one bit per unit, set on the last unit of each block: free reads the size from it, and no header
// breaks the alignment. The checking mode keeps a second bitmap after it, set on first units, to detect frees
// of other addresses.
//
// Algorithm 3 repaired: 8, 8a and 14 are gone with its rounds of shuffles; 9 claims are exact, a lost one
// returns exactly the bits it had, and a scan during which that happened is inconclusive and repeated; 10 no
// word beyond the bitmap is read; 11 runs cross words and may be of any length; 12, 15 it ends; 13 sizes are
// recorded. Size 0 and sizes above the pool return NO_PAGE.
#pragma once

#include "galatea/heap/claim.cuh"

namespace galatea {

// Positions at which runs of `length` (1 to 64) set bits begin in the first of two words. Smearing:
// log2(length) steps.
GALATEA_INLINE u64 run_starts(u64 bits, u64 next, u32 length) {
    u128 both = u128(next) << 64 | bits;
    for (u32 known = 1; known < length;) {
        const u32 step = known < length - known ? known : length - known;
        both &= both >> step;
        known += step;
    }
    return u64(both);
}

// The bits of a word that are multiples of `length` (1 to 64) in the pool; the word begins with bit number
// `at` of the pool.
GALATEA_INLINE u64 multiples(u64 at, u32 length) {
    const u32 before = u32(at % length);
    u64 bits = 1ull << (before == 0 ? 0 : length - before);
    for (u32 step = length; step < 64; step *= 2) bits |= bits << step;
    return bits;
}

struct RunsHeap {
    // One unit for each lane that wants one; see HeapSearch::take in heap/one_page.cuh.
    template <typename Lanes>
    static GALATEA_INLINE u64 take(const HeapView& heap, Lanes lanes, bool want, HeapWalk& walk, HeapTally& tally) {
        return take_run(heap, lanes, want ? 1 : 0, walk, tally);
    }

    template <typename Lanes>
    static GALATEA_INLINE void give(const HeapView& heap, Lanes, u64 unit) { give_run(heap, unit); }

    // Allocates `length` consecutive units for this lane, 0: none. Called by `lanes`. Returns the first unit,
    // or NO_PAGE.
    template <typename Lanes>
    static GALATEA_INLINE u64 take_run(const HeapView& heap, Lanes lanes, u64 length, HeapWalk& walk, HeapTally& tally) {
        walk.position = lanes.shuffle(walk.position, lanes.leader());
        if (length > heap.page_count) {
            heap_error(heap, HEAP_TOO_LARGE, length);
            length = 0;
        }
        u64 unit = take_together(heap, lanes, length, walk, tally);
        u32 needy;
        // A probe reads one word per lane, and finds only runs that are not longer than a word.
        for (u32 look = 0; look < heap.probes / 32 + 1; ++look) {
            needy = lanes.ballot(length != 0 && length <= 64 && unit == NO_PAGE);
            if (needy == 0) break;
            const u64 got = offer(heap, lanes, needy, length, walk, tally);
            if (got != NO_PAGE) unit = got;
        }
        needy = lanes.ballot(length != 0 && unit == NO_PAGE);
        u64 hopeless = ~0ull;  // the shortest length that a complete scan did not find
        while (needy != 0) {
            const u32 source = __ffs(needy) - 1;
            needy &= needy - 1;
            const u64 wanted = lanes.shuffle(length, source);
            if (wanted >= hopeless) continue;
            const u64 got = scan(heap, lanes, wanted, scaled(walk.next(), heap_words(heap)), tally);
            if (got == NO_PAGE) hopeless = wanted;
            else if (lane() == source) unit = got;
        }
        if (unit != NO_PAGE) {
            const u64 last = unit + length - 1;
            atomicOr(heap.own + last / 64, 1ull << (last & 63));
            if (HEAP_CHECKS) atomicOr(heap.own + heap_words(heap) + unit / 64, 1ull << (unit & 63));
        }
        return unit;
    }

    // Frees the block that begins at `unit`; NO_PAGE: nothing. Thread scope.
    static GALATEA_NOINLINE void give_run(const HeapView heap, u64 unit) {
        if (unit == NO_PAGE) return;
        if (unit >= heap.page_count) return heap_error(heap, HEAP_FOREIGN, unit);
        if (HEAP_CHECKS) {
            const u64 begin = 1ull << (unit & 63);
            if ((atomicAnd(heap.own + heap_words(heap) + unit / 64, ~begin) & begin) == 0) {
                const bool free = (__ldcg(heap.bitmap + unit / 64) & begin) != 0;
                return heap_error(heap, free ? HEAP_DOUBLE_FREE : HEAP_FOREIGN, unit);
            }
        }
        u64 word = unit / 64;
        u32 first = u32(unit & 63);
        for (; word < heap_words(heap); ++word, first = 0) {
            const u64 ends = __ldcg(heap.own + word) & ~low_bits(first);
            const u64 end = ends & (0 - ends);
            // The mark is cleared first: once the bits are free, a new block may set it again.
            if (end != 0) atomicAnd(heap.own + word, ~end);
            free_bits(heap.bitmap + word, ((end << 1) - 1) & ~low_bits(first));
            if (ends != 0) return;
        }
    }

private:
    // Allocates all requests of the warp as one run within a word, split in lane order; returns the first
    // unit of this lane's part.
    template <typename Lanes>
    static GALATEA_INLINE u64 take_together(const HeapView& heap, Lanes lanes, u64 length, HeapWalk& walk, HeapTally& tally) {
        const u32 total = lanes.sum(length < 65 ? u32(length) : 65);
        const u32 askers = lanes.ballot(length != 0);
        if (total == 0 || total > 64 || __popc(askers) < 2) return NO_PAGE;
        const u64 run = offer(heap, lanes, askers & (0 - askers), total, walk, tally);
        const u32 leader = __ffs(askers) - 1;
        u64 first = lanes.shuffle(run, leader);
        if (first == NO_PAGE) return NO_PAGE;
        for (u32 others = askers; others != 0; others &= others - 1) {
            const u32 source = __ffs(others) - 1;
            const u32 before = u32(lanes.shuffle(length, source));
            if (source < lane()) first += before;
        }
        return length == 0 ? NO_PAGE : first;
    }

    // Probes a random window: the needy lane of rank r is paired with the words at indices r, r + m, ... (m
    // needy lanes), and claims a run in the first of them that has one.
    template <typename Lanes>
    static GALATEA_INLINE u64 offer(const HeapView& heap, Lanes lanes, u32 needy, u64 length, HeapWalk& walk, HeapTally& tally) {
        const u32 count = lanes.count(), place = lanes.place(), m = __popc(needy);
        const u64 words = heap_words(heap);
        const u64 word = scaled(walk.next(), words) + place;
        const u64 bits = word < words ? __ldcg(heap.bitmap + word) : 0;
        const bool needs = (needy >> lane() & 1u) != 0;
        if (needs) tally.step();
        const u32 wanted = u32(lanes.shuffle(length, select_bit(needy, place % m)));
        const u64 after = lanes.shuffle(bits, lanes.lane_at(place + 1 < count ? place + 1 : 0));
        const u64 starts = run_starts(bits, place + 1 < count ? after : 0, wanted) & multiples(word * 64, wanted);
        const u32 has = lanes.ballot(starts != 0);
        // Only the first of the words that could serve the same lane is claimed.
        const u32 source = first_of_rank(lanes, has, needs ? __popc(needy & lanes_before()) : place % m, m);
        u64 claimed = NO_PAGE;
        if (starts != 0 && first_of_rank(lanes, has, place % m, m) == lane()) {
            const u64 first = word * 64 + u32(__ffsll(i64(starts)) - 1);
            if (claim_run(heap, first, wanted, tally)) claimed = first;
        }
        claimed = lanes.shuffle(claimed, source == WARP ? lanes.leader() : source);
        return needs && source != WARP ? claimed : NO_PAGE;
    }

    // The first lane of `has` at indices rank, rank + m, ...; WARP: none.
    template <typename Lanes> static GALATEA_INLINE u32 first_of_rank(Lanes lanes, u32 has, u32 rank, u32 m) {
        for (u32 place = rank; place < lanes.count(); place += m) {
            const u32 candidate = lanes.lane_at(place);
            if ((has >> candidate & 1u) != 0) return candidate;
        }
        return WARP;
    }

    // Scans all positions, for one request of the warp, uniform: multiples of `length` from word `start` on,
    // then from the beginning, then any position. Returns NO_PAGE if, for each position, no free run began
    // there at some moment of the scan.
    template <typename Lanes>
    static GALATEA_NOINLINE u64 scan(const HeapView heap, Lanes lanes, u64 length, u64 start, HeapTally& tally) {
        const u32 count = lanes.count(), place = lanes.place(), leader = lanes.leader();
        const u64 words = heap_words(heap);
        for (u32 pass = 0;; ++pass) {
            tally.sweep();
            const u64 grid = pass < 2 ? length : 1;
            bool hidden = false;
            const u64 before = claims(heap, lanes, hidden);
            u64 run = 0;  // free units directly before the next word
            for (u64 base = pass == 0 ? start : 0; base < words;) {
                const u64 bits = base + place < words ? __ldcg(heap.bitmap + base + place) : 0;
                if (lanes.ballot(bits != 0) == 0) {
                    run = 0;
                    base += count;
                    continue;
                }
                u64 found = NO_PAGE;
                for (u32 i = 0; i < count && base + i < words && found == NO_PAGE; ++i)
                    found = extend(lanes.shuffle(bits, lanes.lane_at(i)), (base + i) * 64, length, grid, run);
                if (found == NO_PAGE) {
                    base += count;
                    continue;
                }
                u32 claimed = 0;
                if (lane() == leader) claimed = claim_run(heap, found, length, tally) ? 1 : 0;
                if (lanes.shuffle(claimed, leader) != 0) return found;
                // Another warp was faster: probe the same words again, from the beginning of the run.
                hidden = true;
                base = found / 64;
                run = 0;
            }
            // A failed claim, of this warp or another, hid units temporarily.
            if (claims(heap, lanes, hidden) != before) hidden = true;
            if (pass >= 2 && !hidden) return NO_PAGE;
        }
    }

    // Continues the scan with the word that begins with unit `at` and has `run` free units before it. Returns
    // the position from which `length` units are free, a multiple of `grid`, or NO_PAGE; updates `run` to the
    // end of the word.
    static GALATEA_INLINE u64 extend(u64 word, u64 at, u64 length, u64 grid, u64& run) {
        if ((word & 1) == 0) run = 0;
        while (word != 0) {
            const u32 first = __ffsll(i64(word)) - 1;
            const u64 others = ~(word >> first);
            const u32 count = others << first == 0 ? 64 - first : __ffsll(i64(others)) - 1;
            const u64 begin = first == 0 ? at - run : at + first, end = at + first + count;
            const u64 aligned = grid == 1 ? begin : (begin + grid - 1) / grid * grid;
            if (aligned + length <= end) return aligned;
            run = first + count == 64 ? end - begin : 0;
            word &= ~(low_bits(count) << first);
        }
        return NO_PAGE;
    }

    // Claims across words are counted at their first word, in the high half of their superblock's balance,
    // which is otherwise unused here: those in flight in its low 16 bits, those rolled back in the rest.
    static constexpr u64 IN_FLIGHT = 1ull << 32, ROLLED_BACK = 1ull << 48;

    static GALATEA_INLINE u64* claims_of(const HeapView& heap, u64 first) { return heap.balances + first / SUPERBLOCK_PAGES; }

    // The sum of all these counts; `busy` becomes true if a claim is in flight.
    template <typename Lanes> static GALATEA_INLINE u64 claims(const HeapView& heap, Lanes lanes, bool& busy) {
        u64 sum = 0;
        bool flying = false;
        for (u64 i = lanes.place(); i < heap.superblocks; i += lanes.count()) {
            const u64 count = __ldcg(heap.balances + i) >> 32;
            flying = flying || (count & 0xffff) != 0;
            sum += count >> 16;
        }
        busy = lanes.ballot(flying) != 0 || busy;
        return lanes.sum(u32(sum));
    }

    // Thread scope. Claims a run: within a word all or nothing, across words in ascending order, so that one
    // of several overlapping claims succeeds; a failed claim releases the bits that it had. Claims across
    // words are announced.
    static GALATEA_NOINLINE bool claim_run(const HeapView heap, u64 first, u64 length, HeapTally& tally) {
        const u64 end = first + length;
        if (first / 64 == (end - 1) / 64) {
            const u64 run = low_bits(u32(length)) << (first & 63);
            u64* word = heap.bitmap + first / 64;
            for (u64 seen = __ldcg(word); (seen & run) == run;) {
                tally.atomic();
                const u64 old = atomicCAS(word, seen, seen & ~run);
                if (old == seen) return true;
                seen = old;
            }
            tally.collision();
            return false;
        }
        atomicAdd(claims_of(heap, first), IN_FLIGHT);
        for (u64 at = first; at < end;) {
            const u64 stop = (at / 64 + 1) * 64 < end ? (at / 64 + 1) * 64 : end;
            const u64 run = low_bits(u32(stop - at)) << (at & 63);
            tally.atomic();
            const u64 got = claim_bits(heap.bitmap + at / 64, run) & run;
            if (got != run) {
                tally.collision();
                if (got != 0) free_bits(heap.bitmap + at / 64, got);
                give_units(heap, first, at);
                atomicAdd(claims_of(heap, first), ROLLED_BACK - IN_FLIGHT);
                return false;
            }
            at = stop;
        }
        atomicAdd(claims_of(heap, first), 0ull - IN_FLIGHT);
        return true;
    }

    static GALATEA_INLINE void give_units(const HeapView& heap, u64 at, u64 end) {
        while (at < end) {
            const u64 stop = (at / 64 + 1) * 64 < end ? (at / 64 + 1) * 64 : end;
            free_bits(heap.bitmap + at / 64, low_bits(u32(stop - at)) << (at & 63));
            at = stop;
        }
    }
};

}  // namespace galatea
