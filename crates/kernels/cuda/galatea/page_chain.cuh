// Block scope: rows of unknown number, written once, into chains of heap pages. One chain per block; the next
// kernel or the host walks it. No counting pass, no memory for the worst case, no host between.
//
//     chain ─► page ─► page ─► page    a page: header { next, rows }, then `words` columns of `page_rows`
//              full    full    rows    values, so that lanes with neighbouring rows write (and read)
//                                      neighbouring words
//
// Warps append on their own, whenever they have something, but whole: lanes of one warp that call apart would
// wait for each other where a page is full, and on a GPU might do so for ever. They share the block's page:
// its number and fill are one 64-bit word in shared memory, so one atomic reserves places for all rows of a
// warp. The warp whose rows cross the end of the page takes the next page from the heap; warps that come in
// between try again. A page holds at least a warp's rows.
//
// On an H200 268 million rows of 16 bytes take 3.0 ms with pages of 64 KiB, 3.9 with 16 KiB, 7.1 with 4 KiB;
// 8.4 with one counter for all warps. When one row in a hundred is kept, the counter is 10 % faster.
//
// No row is lost when the heap is exhausted. Rows are committed by morsel: `begin_morsel` remembers the
// chain, and when a page was refused `end_morsel` cuts the chain back to there, notes the morsel in the
// chain, and says stop. The host, which drained the heap, launches again, and each block goes on with the
// morsel it is told.
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
// Or, where work on a morsel cannot be undone, `append` says which rows found no page, and `keep_morsel` in
// place of `begin_morsel` and `end_morsel` keeps the others: the caller remembers which rows are still to
// come when the block is resumed.
#pragma once

#include "galatea/block.cuh"
#include "galatea/heap/one_page.cuh"

namespace galatea {

struct PageHeader {
    u64 next;  // NO_PAGE: the last
    u64 rows;
};

// Host twin: galatea_kernels::PageChain. What a launch leaves of a block's chain, and the next one continues.
struct PageChain {
    u64 first;  // NO_PAGE: empty
    u64 last;
    u64 rows;
    u64 morsel;   // where the block is to begin when the launch is a resumption
};

// Host twin: galatea_kernels::PageChainsView. The chains of a launch, by value in its arguments: one per
// block.
struct PageChainsView {
    HeapView heap;
    PageChain* chains;
    u64* overflow;  // [0] rows of morsels that were cut, a lower bound of what is missing; [1] blocks that stopped
    u32 page_rows;  // rows a page has room for, 32 at least
    u32 words;      // 64-bit words of a row
    u32 count;      // chains: blocks of the launch; 0: there are none, and every row is refused
    u32 resume;     // 1: blocks begin with the morsel in their chain
};

GALATEA_INLINE PageHeader* page_header(const HeapView& heap, u64 page) {
    return reinterpret_cast<PageHeader*>(heap_address(heap, page));
}

// Column `column` of a page: values [0, page_rows).
GALATEA_INLINE u64* page_column(const PageChainsView& chains, u64 page, u32 column) {
    return reinterpret_cast<u64*>(page_header(chains.heap, page) + 1) + u64(column) * chains.page_rows;
}

// The block's end of its chain, in shared memory.
struct ChainState {
    u64 end;     // page in the high half, NO_LAST when there is none; rows in it in the low half, more than fit while it is full
    u64 first;   // first page of the chain
    u64 full;    // rows in pages before the last
    u64 marked_end, marked_first, marked_full;  // as they were when the morsel began
    u64 dried;   // the last page, full, when the heap was exhausted
    u32 missed;  // rows of this morsel that found no page
    u32 tile_rows;
};

template <u32 Words> struct ChainWriter {
    // Instead of a page: none yet, and none any more, the heap is exhausted.
    static constexpr u32 NO_LAST = u32(NO_PAGE), DRY = NO_LAST - 1;

    const PageChainsView& chains;
    ChainState& state;
    HeapWalk walk;

    // Block scope. Goes on where the block's chain ends. Barriers: 1.
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

    // The morsel this block is to begin with: where it stopped in an earlier launch, or `first`.
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

    // Warp scope: the lanes of `mask` call. Appends the row of each lane that keeps one; false when it found
    // no page.
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

    // Places of one lane's rows, which follow each other from `at` on: in `page` as far as it goes, then in
    // `beyond`.
    struct Places {
        u32 page, beyond, at;
    };

    // Warp scope: the lanes of `mask` call. Places for `count` rows of each lane; all lanes together ask for
    // no more than a page has room for. What is reserved must be written.
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

    // Thread scope. Word 0 of the lane's k-th row, word w lying w * page_rows further; nullptr when there was
    // no page.
    GALATEA_INLINE u64* row_of(const Places& places, u32 k) const {
        u32 page = places.page, at = places.at + k;
        if (at >= chains.page_rows) { page = places.beyond; at -= chains.page_rows; }
        return page >= DRY ? nullptr : page_column(chains, page, 0) + at;
    }

    // Block scope. Whether to go on: false when rows of this morsel found no page; then none of them is in
    // the chain, and the block is to begin with `morsel` next time. Barriers: 2.
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

    // Block scope. Whether to go on: false when some thread says that a row of its found no page; the other
    // rows are in the chain, and the block is to begin with `morsel` next time. Barriers: 1.
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

    // Block scope. Writes the chain down; `morsel`: the one to begin with next time.
    GALATEA_INLINE void finish(u64 morsel) {
        __syncthreads();
        if (threadIdx.x == 0 && chains.count != 0) store(morsel);
    }

private:
    // Reserves places for `n` rows of a warp: page and first place in it. `beyond`: the page of rows past the
    // end of that one.
    GALATEA_INLINE u64 reserve(u32 mask, u32 n, u64& beyond) {
        const u32 leader = __ffs(mask) - 1, page_rows = chains.page_rows;
        beyond = NO_PAGE;
        u64 place = 0;
        if (lane() == leader) {
            place = atomicAdd(&state.end, u64(n));
            // Another warp fetches the next page; its answer wipes this reservation out.
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
        // A call, once in many rows: `append` stays small.
        const HeapTaken taken = heap_take_one(chains.heap, mask, walk);
        walk = taken.walk;
        beyond = taken.page;
        if (lane() == leader) link(page, beyond, end - page_rows);
        return place;
    }

    // Puts the page that was taken (NO_PAGE: there was none) at the end of the chain, with `rows` reserved in
    // it. One warp after the other does so, by the exchange of `end`; the other words are atomics for
    // racecheck, which does not see that.
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

    // Back to where the morsel began: pages it added are freed. One thread.
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

    // Writes the chain down. One thread.
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
