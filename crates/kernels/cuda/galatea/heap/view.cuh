// Device scope: the device heap as passed by value in kernel arguments, and the building blocks of every page
// search.
//
// A heap consists of `page_count` equal pages and one bit per page, 1 = free, in 64-bit words; the bits after
// the last page are initially in use. 32 words, 2048 pages, form a superblock: one coalesced load of a warp.
// 32 superblocks form a group.
//
//   summary   one bit per group: may have free pages. A hint, updated lazily.
//   balances  one word per superblock: pages that may still be claimed. Exact (see balance_reserve).
//   bitmap    one bit per page: 1 = free.
//   own       words of the search: flags, locks, ends of blocks, a ring.
//
// Guarantees of all searches: A call ends: it makes a bounded number of probes, then sweeps once, and
// restarts only if other calls allocated or released pages meanwhile. No page is handed out twice. Every free
// page can be handed out. NO_PAGE is returned only if each page was seen in use, or reserved by a concurrent
// call, at some moment of the call; so if no page is freed during the call, the pool is exhausted. Frees
// concurrent with the call may or may not be seen. (The bump search never reuses pages.)
//
// They do not guarantee any memory order. Claiming or freeing a page moves no data; accesses to a page's
// contents are ordered by the mechanism that passes its number on (a barrier, the end of a kernel).
#pragma once

#include "galatea/heap/bits.cuh"
#include "galatea/heap/lanes.cuh"

namespace galatea {

// Host twins are in galatea_kernels::heap; a test compiles the comparison.
constexpr u32 SUPERBLOCK_WORDS = 32;
constexpr u32 SUPERBLOCK_PAGES = 64 * SUPERBLOCK_WORDS;
constexpr u32 GROUP_SUPERBLOCKS = 32;
// Balances that a lane loads at once in a sweep; their number is padded to a multiple of a warp's.
constexpr u32 SWEEP_BALANCES = 4;
// Words of status, and the first of its counters.
constexpr u32 HEAP_STATUS_WORDS = 16;
constexpr u32 HEAP_FIRST_COUNTER = 4;

constexpr u64 NO_PAGE = 0xffffffffffffffffull;

// Host twin: galatea_kernels::HeapView.
struct HeapView {
    u8* pages;
    u64* bitmap;
    u64* balances;
    u64* summary;
    u64* own;
    u64* status;     // see HeapStatus
    u64 page_count;
    u64 reciprocal;  // 2^64 / page_bytes, rounded up: page of an offset without a division
    u64 seed;        // differs for every launch, or all launches would walk the same path
    u32 page_bytes;
    u32 superblocks;
    u32 groups;
    u32 probes;      // probes before a sweep
};

// Words of `status`.
enum HeapStatus : u32 {
    HEAP_ERRORS = 0,      // union of HeapError; written in the checking mode only
    HEAP_ERROR_PAGE = 1,  // one more than the first offending page, or offset in bytes for a foreign pointer
    HEAP_CURSOR = 2,      // bump: next page; queue: next ticket to take
    HEAP_TAIL = 3,        // queue: next ticket to give
    // Counters, in counting builds only.
    HEAP_ALLOCATIONS = HEAP_FIRST_COUNTER,
    HEAP_FAILURES,
    HEAP_STEPS,       // probes, summed over threads (TAS times threads)
    HEAP_WARP_STEPS,  // probes of the slowest lane, summed over warps (WAS times warps)
    HEAP_WARPS,
    HEAP_ATOMICS,     // atomics issued by allocations
    HEAP_COLLISIONS,  // claims of a page that was seen free but that another thread got first
    HEAP_SWEEPS,
    HEAP_FREES,
};

enum HeapError : u32 {
    HEAP_FOREIGN = 1,      // freed an address that is not a page of this heap
    HEAP_DOUBLE_FREE = 2,  // freed a page that is free
    HEAP_TOO_LARGE = 4,    // requested more than a page, or than the pool
};

// -DGALATEA_HEAP_COUNT: allocations count their steps in `status`.
#ifdef GALATEA_HEAP_COUNT
constexpr bool HEAP_COUNTS = true;
#else
constexpr bool HEAP_COUNTS = false;
#endif

GALATEA_INLINE void heap_error(const HeapView& heap, HeapError error, u64 where) {
    if (!HEAP_CHECKS) return;
    atomicOr(heap.status + HEAP_ERRORS, u64(error));
    atomicCAS(heap.status + HEAP_ERROR_PAGE, 0ull, where + 1);
}

// Cost of one thread's allocation. Empty unless counted: a call takes it by reference, and would otherwise
// keep it in memory.
#ifndef GALATEA_HEAP_COUNT
struct HeapTally {
    GALATEA_INLINE void step() {}
    GALATEA_INLINE void atomic(u32 = 1) {}
    GALATEA_INLINE void collision() {}
    GALATEA_INLINE void sweep() {}
    template <typename Lanes> GALATEA_INLINE void add_to(const HeapView&, Lanes, bool, bool) const {}
};
#else
struct HeapTally {
    u32 steps = 0;
    u32 atomics = 0;
    u32 collisions = 0;
    u32 sweeps = 0;

    GALATEA_INLINE void step() { ++steps; }
    GALATEA_INLINE void atomic(u32 n = 1) { atomics += n; }
    GALATEA_INLINE void collision() { ++collisions; }
    GALATEA_INLINE void sweep() { ++sweeps; }

    // Warp scope: adds to the heap's counters. `wanted`, `got`: this lane requested a page, and received one.
    template <typename Lanes>
    GALATEA_INLINE void add_to(const HeapView& heap, Lanes lanes, bool wanted, bool got) const {
        const u32 wants = lanes.ballot(wanted), gets = lanes.ballot(got);
        const u32 total = lanes.sum(wanted ? steps : 0u);
        const u32 slowest = lanes.greatest(wanted ? steps : 0u);
        const u32 all_atomics = lanes.sum(atomics);
        const u32 lost = lanes.sum(collisions), sweeping = lanes.sum(sweeps);
        if (lane() != lanes.leader() || wants == 0) return;
        atomicAdd(heap.status + HEAP_ALLOCATIONS, u64(__popc(gets)));
        atomicAdd(heap.status + HEAP_FAILURES, u64(__popc(wants & ~gets)));
        atomicAdd(heap.status + HEAP_STEPS, u64(total));
        atomicAdd(heap.status + HEAP_WARP_STEPS, u64(slowest));
        atomicAdd(heap.status + HEAP_WARPS, 1ull);
        atomicAdd(heap.status + HEAP_ATOMICS, u64(all_atomics));
        atomicAdd(heap.status + HEAP_COLLISIONS, u64(lost));
        atomicAdd(heap.status + HEAP_SWEEPS, u64(sweeping));
    }
};
#endif

// The next position that a thread or warp probes: a fraction of the pool in 64 bits. The caller keeps it
// between calls, so that a partly used superblock is used up, and consecutive allocations are neighbours in
// memory.
struct HeapWalk {
    u64 position;

    // Another pseudo-random position, for the random walks. The stride differs from that of heap_walk:
    // otherwise each warp would follow the path of the warp before it, to pages that are taken.
    GALATEA_INLINE u64 next() { return mix64(position += 0xd1342543de82ef95ull); }
};

// The walk of thread, warp or block number `id`. Starts are stratified, not random: multiples of the golden
// ratio, shifted by the launch's seed, so that the warps of a launch spread evenly and rarely collide.
GALATEA_INLINE HeapWalk heap_walk(const HeapView& heap, u64 id) {
    return HeapWalk{(id + 1) * 0x9e3779b97f4a7c15ull + mix64(heap.seed)};
}

// The first `count` set bits of a lane mask; all of them if it has fewer.
GALATEA_INLINE u32 first_of(u32 lanes, u32 count) {
    if (count >= u32(__popc(lanes))) return lanes;
    return count == 0 ? 0 : lanes & u32(low_bits(select_bit(lanes, count - 1) + 1));
}

// Number of words of the bitmap that contain pages; there are at most 2^31 pages.
GALATEA_INLINE u32 heap_words(const HeapView& heap) { return u32((heap.page_count + 63) / 64); }

// A performance rule for the searches: a function that is not inlined takes the heap by value. If passed by
// reference, the kernel argument would need an address, and every thread would first copy it to its stack.

// A balance: the number of pages of a superblock (or of a queue) that may still be claimed, in two halves of
// a word. Reservations are taken from the low half, `available`, which is biased because it may be
// temporarily overdrawn; frees are added to the high half, `returned`. The halves make exhaustion exact:
// while the low half is overdrawn, nothing is moved into it, so an overdraft can never hide pages that were
// freed concurrently.
constexpr u64 BALANCE_EMPTY = 0x80000000ull;

struct Balance {
    i32 available;
    u32 returned;

    GALATEA_INLINE explicit Balance(u64 word) : available(i32(u32(word) ^ 0x80000000u)), returned(u32(word >> 32)) {}
    GALATEA_INLINE u32 total() const { return u32(available > 0 ? available : 0) + returned; }
};

// Thread scope. Reserves up to `n` > 0 pages and returns their number: less than n only if no more were left
// at some moment of the call. The holder of a reservation will find that many free bits in the superblock. It
// is split into two functions, so that the first, an atomic without a wait, overlaps with other work: the
// second is cheap if at least n were available in the result of the first.
GALATEA_INLINE u64 balance_ask(u64* balance, u32 n, HeapTally& tally) {
    tally.atomic();
    return atomicAdd(balance, 0ull - u64(n));
}
GALATEA_INLINE u32 balance_settle(u64* balance, u64 asked, u32 n, HeapTally& tally) {
    u32 missing = n;
    for (;;) {
        const i32 available = Balance(asked).available;
        if (available >= i32(missing)) return n;
        if (available > 0) missing -= u32(available);
        tally.atomic();
        atomicAdd(balance, u64(missing));
        for (;;) {
            const u64 word = __ldcg(balance);
            const Balance seen(word);
            if (seen.total() == 0) return n - missing;
            if (seen.available < 0) continue;  // another call is about to restore an overdraft
            if (seen.returned == 0) break;     // another call has moved the returned pages: request again
            const u32 more = seen.total() < missing ? seen.total() : missing;
            tally.atomic();
            if (atomicCAS(balance, word, BALANCE_EMPTY + (seen.total() - more)) == word) missing -= more;
            if (missing == 0) return n;
        }
        asked = balance_ask(balance, missing, tally);
    }
}
GALATEA_INLINE u32 balance_reserve(u64* balance, u32 n, HeapTally& tally) {
    return balance_settle(balance, balance_ask(balance, n, tally), n, tally);
}

// Thread scope. Releases `n` pages; returns the previous total.
GALATEA_INLINE u32 balance_return(u64* balance, u32 n) { return Balance(atomicAdd(balance, u64(n) << 32)).total(); }

}  // namespace galatea
