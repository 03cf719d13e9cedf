// Warp scope: RW_malloc, blocks of consecutive pages, here called units (Pham et al. 2022, 4.3 and Algorithm 3).
//
// A warp first looks at random windows of words, each lane offering a run inside its own word to one lane that needs it, claimed
// by compare-and-swap: all of it or nothing, so there is nothing to roll back. Runs across words, and runs longer than a word, are
// found by a scan that carries the run from word to word, and are claimed word by word in ascending order. Small requests of a
// warp are summed into one run and split.
//
// `own` has one bit per unit, set on the last unit of each block: free finds the size there, and no header spoils the alignment.
// After it the checking mode keeps another, set on first units: a free of anything else is seen.
//
// Algorithm 3 repaired: 8, 8a and 14 are gone with its rounds of shuffles; 9 claims are exact, a lost one returns exactly the bits
// it had, and a scan during which that happened says nothing, it is made again; 10 no word beyond the bitmap is read; 11 runs
// cross words and may be of any length; 12, 15 it ends; 13 sizes are known. Size 0 and sizes above the pool give NO_PAGE.
#pragma once

#include "galatea/heap/claim.cuh"

namespace galatea {

// The first of `length` (1 to 64) consecutive set bits in a word; 64: there are none. Smearing: log2(length) steps.
GALATEA_INLINE u32 find_run(u64 bits, u32 length) {
    for (u32 known = 1; known < length && bits != 0;) {
        const u32 step = known < length - known ? known : length - known;
        bits &= bits >> step;
        known += step;
    }
    return bits == 0 ? 64 : u32(__ffsll(i64(bits)) - 1);
}

struct RunsHeap {
    // One unit for each lane that wants one; as HeapStrategy::take in heap.cuh.
    template <typename Lanes>
    static GALATEA_INLINE u64 take(const Heap& heap, Lanes lanes, bool want, HeapWalk& walk, HeapTally& tally) {
        return take_run(heap, lanes, want ? 1 : 0, walk, tally);
    }

    template <typename Lanes>
    static GALATEA_INLINE void give(const Heap& heap, Lanes, u64 unit) { give_run(heap, unit); }

    // `length` consecutive units for this lane, 0: none. Who calls: `lanes`. The first unit, or NO_PAGE.
    template <typename Lanes>
    static GALATEA_INLINE u64 take_run(const Heap& heap, Lanes lanes, u64 length, HeapWalk& walk, HeapTally& tally) {
        walk.position = lanes.shuffle(walk.position, lanes.leader());
        if (length > heap.page_count) {
            heap_error(heap, HEAP_TOO_LARGE, length);
            length = 0;
        }
        u64 unit = take_together(heap, lanes, length, walk, tally);
        u32 needy;
        for (u32 look = 0; look < heap.probes; ++look) {
            // Only runs that fit a word are found this way.
            needy = lanes.ballot(length != 0 && length <= 64 && unit == NO_PAGE);
            if (needy == 0) break;
            const u64 got = offer(heap, lanes, needy, length, walk, tally);
            if (got != NO_PAGE) unit = got;
        }
        needy = lanes.ballot(length != 0 && unit == NO_PAGE);
        u64 hopeless = ~0ull;  // the shortest length a whole scan did not find
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
    static GALATEA_NOINLINE void give_run(const Heap heap, u64 unit) {
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
            // The mark goes first: once the bits are free, a new block may set it again.
            if (end != 0) atomicAnd(heap.own + word, ~end);
            atomicOr(heap.bitmap + word, ((end << 1) - 1) & ~low_bits(first));
            if (ends != 0) return;
        }
    }

private:
    // All of the warp's requests as one run within a word, split in lane order: the first unit of this lane's part.
    template <typename Lanes>
    static GALATEA_INLINE u64 take_together(const Heap& heap, Lanes lanes, u64 length, HeapWalk& walk, HeapTally& tally) {
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

    // One look at a random window: the needy lane of rank r is paired with the words of places r, r + m, ... (m needy lanes), and
    // claims a run in the first of them that has one.
    template <typename Lanes>
    static GALATEA_INLINE u64 offer(const Heap& heap, Lanes lanes, u32 needy, u64 length, HeapWalk& walk, HeapTally& tally) {
        const u32 count = lanes.count(), place = lanes.place(), m = __popc(needy);
        const u64 words = heap_words(heap);
        const u64 word = (scaled(walk.next(), words) + place) % words;
        const u64 bits = place < words ? __ldcg(heap.bitmap + word) : 0;
        const bool needs = (needy >> lane() & 1u) != 0;
        if (needs) tally.step();
        const u64 wanted = lanes.shuffle(length, select_bit(needy, place % m));
        const u32 at = wanted <= 64 ? find_run(bits, u32(wanted)) : 64;
        const u32 has = lanes.ballot(at < 64);
        // Of the words that could serve the same lane only the first is claimed.
        const u32 rank = needs ? __popc(needy & lanes_before()) : place % m;
        u32 source = 32;
        for (u32 other = rank; other < count && source == 32; other += m) {
            const u32 candidate = lanes.lane_at(other);
            if ((has >> candidate & 1u) != 0) source = candidate;
        }
        u32 mine = 32;
        for (u32 other = place % m; other < count && mine == 32; other += m) {
            const u32 candidate = lanes.lane_at(other);
            if ((has >> candidate & 1u) != 0) mine = candidate;
        }
        u64 claimed = NO_PAGE;
        if (at < 64 && mine == lane()) {
            const u64 run = low_bits(u32(wanted)) << at;
            tally.atomic();
            if (atomicCAS(heap.bitmap + word, bits, bits & ~run) == bits) claimed = word * 64 + at;
            else tally.collision();
        }
        claimed = lanes.shuffle(claimed, source == 32 ? lanes.leader() : source);
        return needs && source != 32 ? claimed : NO_PAGE;
    }

    // Every position, from word `start` to the end and from the beginning to the end again: `length` consecutive units, or
    // NO_PAGE when there was an instant for each position at which no free run began there. For one request of the warp; uniform.
    template <typename Lanes>
    static GALATEA_NOINLINE u64 scan(const Heap heap, Lanes lanes, u64 length, u64 start, HeapTally& tally) {
        const u32 count = lanes.count(), place = lanes.place(), leader = lanes.leader();
        const u64 words = heap_words(heap);
        u64* claims = heap.status + HEAP_TAIL;
        for (;;) {
            tally.sweep();
            const u64 before = lanes.shuffle(__ldcg(claims), leader);
            bool lost = false;
            u64 run = 0;  // free units that end where the next word begins
            for (u64 base = start; base < words;) {
                const u64 bits = base + place < words ? __ldcg(heap.bitmap + base + place) : 0;
                if (lanes.ballot(bits != 0) == 0) {
                    run = 0;
                    base += count;
                    continue;
                }
                u64 found = NO_PAGE;
                for (u32 i = 0; i < count && base + i < words && found == NO_PAGE; ++i) {
                    const u64 word = lanes.shuffle(bits, lanes.lane_at(i));
                    const u64 at = (base + i) * 64;
                    const u32 prefix = word == ~0ull ? 64 : __ffsll(i64(~word)) - 1;
                    if (run + prefix >= length) found = at - run;
                    else if (length <= 64 && find_run(word, u32(length)) < 64) found = at + find_run(word, u32(length));
                    run = word == ~0ull ? run + 64 : __clzll(i64(~word));
                }
                if (found == NO_PAGE) {
                    base += count;
                    continue;
                }
                u32 claimed = 0;
                if (lane() == leader) claimed = claim_run(heap, found, length, tally) ? 1 : 0;
                if (lanes.shuffle(claimed, leader) != 0) return found;
                // Somebody was faster: the same words again, from where the run began.
                lost = true;
                base = found / 64;
                run = 0;
            }
            const u64 after = lanes.shuffle(__ldcg(claims), leader);
            // A lost claim, ours or another's, hid units for a moment.
            const bool hidden = lost || after != before || u32(after) != 0;
            if (start == 0 && !hidden) return NO_PAGE;
            start = 0;
        }
    }

    // Thread scope. Claims a run: within a word all or nothing, across words in ascending order, so that of claims that overlap one
    // succeeds; what it had when it fails is given back. `status` counts claims across words: those in flight, and those rolled
    // back.
    static GALATEA_NOINLINE bool claim_run(const Heap heap, u64 first, u64 length, HeapTally& tally) {
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
        atomicAdd(heap.status + HEAP_TAIL, 1ull);
        for (u64 at = first; at < end;) {
            const u64 stop = (at / 64 + 1) * 64 < end ? (at / 64 + 1) * 64 : end;
            const u64 run = low_bits(u32(stop - at)) << (at & 63);
            tally.atomic();
            const u64 got = atomicAnd(heap.bitmap + at / 64, ~run) & run;
            if (got != run) {
                tally.collision();
                if (got != 0) atomicOr(heap.bitmap + at / 64, got);
                give_units(heap, first, at);
                atomicAdd(heap.status + HEAP_TAIL, (1ull << 32) - 1);
                return false;
            }
            at = stop;
        }
        atomicAdd(heap.status + HEAP_TAIL, 0ull - 1);
        return true;
    }

    static GALATEA_INLINE void give_units(const Heap& heap, u64 at, u64 end) {
        while (at < end) {
            const u64 stop = (at / 64 + 1) * 64 < end ? (at / 64 + 1) * 64 : end;
            atomicOr(heap.bitmap + at / 64, low_bits(u32(stop - at)) << (at & 63));
            at = stop;
        }
    }
};

}  // namespace galatea
