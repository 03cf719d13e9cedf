// Block scope: an unknown number of rows, written once, into chains of heap pages. There is one chain per
// block; the next kernel or the host walks it. This needs no counting pass, no memory for the worst case, and
// no host interaction.
//
//     chain ─► page ─► page ─► page    a page: header { next, rows }, then `words` columns of `page_rows`
//              full    full    rows    values, so that lanes with neighbouring rows write (and read)
//                                      neighbouring words
//
// Warps append independently, whenever they have rows, but converged: lanes of one warp that call separately
// would wait for each other if a page is full, on a GPU possibly forever. Warps share the block's page: its
// number and fill are one 64-bit word in shared memory, so one atomic reserves positions for all rows of a
// warp. The warp with the rows that cross the end of the page takes the next page from the heap; other warps
// retry meanwhile. A page holds at least a warp's rows.
//
// On an H200, 268 million rows of 16 bytes take 3.0 ms with pages of 64 KiB, 3.9 with 16 KiB, 7.1 with 4 KiB;
// 8.4 with one counter for all warps. If one row in a hundred is kept, the counter is 10 % faster.
//
// No row is lost if the heap is exhausted. Rows are committed by morsel: `begin_morsel` records the end of
// the chain, and if a page was refused, `end_morsel` truncates the chain to it, stores the morsel in the
// chain, and returns false. The host, after draining the heap, launches again, and each block continues with
// the morsel in its chain.
//
//     __shared__ ChainState state;
//     ChainWriter<3> rows(args.chains, state);
//     for (u64 morsel = rows.first_morsel(blockIdx.x); morsel < morsels; morsel += gridDim.x) {
//         rows.begin_morsel();
//         ... rows.append(mask, keep, values) by any warp, any number of times ...
//         if (!rows.end_morsel(morsel)) return;
//     }
//     rows.finish(morsels);
//
// Alternatively, if work on a morsel cannot be undone, `append` returns which rows got no page, and
// `keep_morsel` in place of `begin_morsel` and `end_morsel` keeps the others: the caller records which rows
// remain when the block is resumed.
#pragma once

#include "galatea/block.cuh"
#include "galatea/heap/one_page.cuh"

namespace galatea {

struct PageHeader {
    u64 next;  // NO_PAGE: this is the last
    u64 rows;
};

// Host twin: galatea_kernels::PageChain. State of a block's chain after a launch, from which the next one
// continues.
struct PageChain {
    u64 first;  // NO_PAGE: empty
    u64 last;
    u64 rows;
    u64 morsel;   // the first morsel of the block if the launch is a resumption
};

// Host twin: galatea_kernels::PageChainsView. The chains of a launch, passed by value in its arguments: one
// per block.
struct PageChainsView {
    HeapView heap;
    PageChain* chains;
    u64* overflow;  // [0] rows of truncated morsels, at most the missing ones; [1] blocks that stopped
    u32 page_rows;  // capacity of a page in rows, at least 32
    u32 words;      // 64-bit words of a row
    u32 count;      // number of chains, one per block of the launch; 0: none, and every row is refused
    u32 resume;     // 1: blocks begin with the morsel stored in their chain
};

GALATEA_INLINE PageHeader* page_header(const HeapView& heap, u64 page) {
    return reinterpret_cast<PageHeader*>(heap_address(heap, page));
}

// Column `column` of a page: values [0, page_rows).
GALATEA_INLINE u64* page_column(const PageChainsView& chains, u64 page, u32 column) {
    return reinterpret_cast<u64*>(page_header(chains.heap, page) + 1) + u64(column) * chains.page_rows;
}

// The current end of the block's chain, in shared memory.
struct ChainState {
    u64 end;     // page in the high half, or NO_LAST; rows in it in the low half, over capacity if full
    u64 first;   // first page of the chain
    u64 full;    // rows in pages before the last
    u64 marked_end, marked_first, marked_full;  // their values at the beginning of the morsel
    u64 dried;   // the last page, full, at the time when the heap was exhausted
    u32 missed;  // rows of this morsel that got no page
    u32 tile_rows;  // rows appended in this morsel
};

template <u32 Words> struct ChainWriter {
    // Used in place of a page number: no page yet, and no page because the heap is exhausted.
    static constexpr u32 NO_LAST = u32(NO_PAGE), DRY = NO_LAST - 1;

    const PageChainsView& chains;
    ChainState& state;
    HeapWalk walk;

    // Block scope. Continues at the end of the block's chain. Barriers: 1.
    GALATEA_INLINE ChainWriter(const PageChainsView& chains, ChainState& state)
        : chains(chains), state(state), walk(heap_walk(chains.heap, u64(blockIdx.x) * MAX_WARPS + warp())) {
        if (threadIdx.x == 0 && chains.count == 0) {
            state.end = u64(DRY) << 32;
            state.missed = 0;
        } else if (threadIdx.x == 0) {
            const PageChain& chain = chains.chains[blockIdx.x];
            state.first = chain.first;
            const u64 in_last = chain.last == NO_PAGE ? chains.page_rows : page_header(chains.heap, chain.last)->rows;
            state.full = chain.last == NO_PAGE ? 0 : chain.rows - in_last;
            state.end = u64(u32(chain.last)) << 32 | in_last;
            state.missed = 0;
            state.tile_rows = 0;
        }
        __syncthreads();
    }

    // The first morsel of this block: the one at which it stopped in an earlier launch, or `first`.
    GALATEA_INLINE u64 first_morsel(u64 first) const {
        return chains.resume != 0 ? chains.chains[blockIdx.x].morsel : first;
    }

    // Block scope. Barriers: 1.
    GALATEA_INLINE void begin_morsel() {
        if (threadIdx.x == 0) {
            state.marked_end = state.end;
            state.marked_first = state.first;
            state.marked_full = state.full;
            state.missed = 0;
            state.tile_rows = 0;
        }
        __syncthreads();
    }

    // Warp scope: called by the lanes of `mask`. Appends the row of each lane that keeps one; returns false
    // if it got no page.
    GALATEA_INLINE bool append(u32 mask, bool keep, const u64 (&row)[Words]) {
        const u32 keepers = __ballot_sync(mask, keep);
        if (keepers == 0) return true;
        u64 beyond;
        const u64 place = reserve(mask, __popc(keepers), beyond);
        u32 page = u32(place >> 32), at = u32(place) + __popc(keepers & lanes_before());
        if (at >= chains.page_rows) { page = u32(beyond); at -= chains.page_rows; }
        if (!keep || page >= DRY) return !keep;
        u64* column = page_column(chains, page, 0) + at;
#pragma unroll
        for (u32 i = 0; i < Words; ++i) column[u64(i) * chains.page_rows] = row[i];
        return true;
    }

    // Positions of one lane's rows, which are consecutive from `at` on: in `page` up to its end, then in
    // `beyond`.
    struct Places {
        u32 page, beyond, at;
    };

    // Warp scope: called by the lanes of `mask`. Reserves positions for `count` rows of each lane; all lanes
    // together must not request more than a page holds. Reserved positions must be written.
    GALATEA_INLINE Places reserve_rows(u32 mask, u32 count) {
        u32 upto = count;
#pragma unroll
        for (u32 distance = 1; distance < WARP; distance *= 2) {
            const u32 other = __shfl_up_sync(mask, upto, distance);
            if (lane() >= distance) upto += other;
        }
        const u32 total = __shfl_sync(mask, upto, 31 - __clz(mask));
        if (total == 0) return Places{DRY, DRY, 0};
        u64 beyond;
        const u64 place = reserve(mask, total, beyond);
        return Places{u32(place >> 32), u32(beyond), u32(place) + upto - count};
    }

    // Thread scope. Word 0 of the lane's k-th row; word w is w * page_rows further; nullptr if the row got no
    // page.
    GALATEA_INLINE u64* row_of(const Places& places, u32 k) const {
        u32 page = places.page, at = places.at + k;
        if (at >= chains.page_rows) { page = places.beyond; at -= chains.page_rows; }
        return page >= DRY ? nullptr : page_column(chains, page, 0) + at;
    }

    // Block scope. Returns whether to continue: false if rows of this morsel got no page; then none of them
    // is in the chain, and the block must begin with `morsel` next time. Barriers: 2.
    GALATEA_INLINE bool end_morsel(u64 morsel) {
        __syncthreads();
        const bool whole = state.missed == 0;
        if (!whole && threadIdx.x == 0) {
            cut();
            atomicAdd(chains.overflow, u64(state.tile_rows));
            atomicAdd(chains.overflow + 1, 1ull);
            store(morsel);
        }
        __syncthreads();
        return whole;
    }

    // Block scope. Returns whether to continue: false if a row of any thread got no page; the other rows are
    // in the chain, and the block must begin with `morsel` next time. Barriers: 1.
    GALATEA_INLINE bool keep_morsel(u64 morsel, bool refused) {
        if (__syncthreads_or(refused) == 0) return true;
        if (threadIdx.x == 0) {
            state.end = state.dried << 32 | chains.page_rows;
            atomicAdd(chains.overflow, u64(state.missed));
            atomicAdd(chains.overflow + 1, 1ull);
            store(morsel);
        }
        return false;
    }

    // Block scope. Stores the chain; `morsel`: the one to begin with next time.
    GALATEA_INLINE void finish(u64 morsel) {
        __syncthreads();
        if (threadIdx.x == 0 && chains.count != 0) store(morsel);
    }

private:
    // Reserves positions for `n` rows of a warp: page and first position in it. `beyond`: the page of rows
    // past the end of that one.
    GALATEA_INLINE u64 reserve(u32 mask, u32 n, u64& beyond) {
        const u32 leader = __ffs(mask) - 1, page_rows = chains.page_rows;
        beyond = NO_PAGE;
        u64 place = 0;
        if (lane() == leader) {
            place = atomicAdd(&state.end, u64(n));
            // Another warp takes the next page; its exchange of `end` discards this reservation.
            while (u32(place) > page_rows && u32(place >> 32) != DRY) {
                u64 now;
                do now = atomicAdd(&state.end, 0ull);
                while (now >> 32 == place >> 32 && u32(now) > page_rows);
                place = atomicAdd(&state.end, u64(n));
            }
            atomicAdd(&state.tile_rows, n);
        }
        place = __shfl_sync(mask, place, leader);
        const u32 page = u32(place >> 32), end = u32(place) + n;
        if (page != DRY && end <= page_rows) return place;
        if (page == DRY) {
            if (lane() == leader) atomicAdd(&state.missed, n);
            return place;
        }
        // Not inlined, as it runs once in many rows: `append` stays small.
        const HeapTaken taken = heap_take_one(chains.heap, mask, walk);
        walk = taken.walk;
        beyond = taken.page;
        if (lane() == leader) link(page, beyond, end - page_rows);
        return place;
    }

    // Appends a page (NO_PAGE: the heap is exhausted) to the chain, with `rows` reserved in it. The exchange
    // of `end` serialises the warps that do so; the other words are atomics for racecheck, which cannot
    // detect that.
    GALATEA_INLINE void link(u32 page, u64 next, u32 rows) {
        if (next == NO_PAGE) {
            atomicAdd(&state.missed, rows);
            atomicExch(&state.dried, u64(page));
            atomicExch(&state.end, u64(DRY) << 32);
            return;
        }
        *page_header(chains.heap, next) = PageHeader{NO_PAGE, 0};
        if (page == NO_LAST) {
            atomicExch(&state.first, next);
        } else {
            *page_header(chains.heap, page) = PageHeader{next, chains.page_rows};
            atomicAdd(&state.full, u64(chains.page_rows));
        }
        __threadfence_block();
        atomicExch(&state.end, next << 32 | rows);
    }

    // Restores the chain at the beginning of the morsel: pages added since are freed. By one thread.
    GALATEA_INLINE void cut() {
        const u32 last = u32(state.marked_end >> 32);
        u64 page = state.first;
        if (last != NO_LAST) {
            page = page_header(chains.heap, last)->next;
            page_header(chains.heap, last)->next = NO_PAGE;
        }
        while (page != NO_PAGE) {
            const u64 next = page_header(chains.heap, page)->next;
            heap_give_one(chains.heap, page);
            page = next;
        }
        state.end = state.marked_end;
        state.first = state.marked_first;
        state.full = state.marked_full;
    }

    // Stores the chain. By one thread.
    GALATEA_INLINE void store(u64 morsel) {
        PageChain& chain = chains.chains[blockIdx.x];
        const u32 last = u32(state.end >> 32), rows = u32(state.end);
        chain.first = state.first;
        chain.last = last == NO_LAST ? NO_PAGE : last;
        chain.rows = last == NO_LAST ? 0 : state.full + rows;
        chain.morsel = morsel;
        if (last != NO_LAST) *page_header(chains.heap, last) = PageHeader{NO_PAGE, rows};
    }
};

}  // namespace galatea
