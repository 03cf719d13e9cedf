// Finds the sequences of a tile of compressed bytes. Block scope: a whole block of DECOMPRESS_THREADS
// threads.
//
// The position of a sequence depends on all sequences before it. Each thread parses sequences at its own
// bytes, as if one began there. Then the chain of the sequences that do begin is found on three levels:
// - Within a window of 32 bytes, lanes double their steps: each lane receives the end of the chain from its
//   byte in the window, and a bit for each byte on the way.
// - A warp has consecutive windows, and begins with the last one. So a lane finds in shared memory where the
//   chain that leaves its window leaves the bytes of the warp.
// - All threads follow the chain from warp to warp.
#pragma once

#include "galatea/parquet/sequences.cuh"
#include "galatea/warp.cuh"

namespace galatea {

constexpr u32 DECOMPRESS_THREADS = 256;
constexpr u32 CHAIN_WARPS = DECOMPRESS_THREADS / WARP;
constexpr u32 CHAIN_WINDOWS = 8;                             // windows of a warp
constexpr u32 WARP_BYTES = CHAIN_WINDOWS * WARP;             // compressed bytes of a warp
constexpr u32 TILE_BYTES = CHAIN_WARPS * WARP_BYTES;         // compressed bytes of a tile
constexpr u32 TILE_SEQUENCES = TILE_BYTES / 2;               // all but the last of a page take 2 bytes

// Sequences of a tile, in shared memory.
struct Chain {
    u16 exit[TILE_BYTES];       // by byte: where the chain from it leaves the bytes of its warp
    u16 begin[TILE_SEQUENCES];  // the first bytes of sequences
    u32 counts[CHAIN_WARPS];    // sequences by warp
};

// Shared memory that is in use within `find_chain` only.
struct Windows {
    u32 passed[TILE_BYTES];  // by byte: bits of the bytes of its window that the chain from it passes
    u16 end[TILE_BYTES];     // by byte: where the chain from it leaves its window
};

// Finds where the chains from all bytes of a window leave it, and the bytes on their way.
template <typename Codec>
GALATEA_INLINE void follow_window(Chain& chain, Windows& windows, const PageBytes& in, u32 window, u32 warp_end) {
    constexpr u32 ALL = 0xffffffffu;
    const u32 byte = window * WARP + lane();
    const u32 after = window * WARP + WARP;
    const Sequence own = Codec::read(in, in.at + byte, false);
    // The chain stays at a sequence where it ends.
    u32 next = own.complete && !own.alone ? byte + own.advance : byte;
    u32 passed = 1u << lane();
    // Sequences take 2 bytes at least, so that a window has 16 at most.
#pragma unroll
    for (u32 step = 1; step < WARP / 2; step *= 2) {
        const u32 next_of_next = __shfl_sync(ALL, next, next % WARP);
        const u32 passed_by_next = __shfl_sync(ALL, passed, next % WARP);
        if (next < after) {
            next = next_of_next;
            passed |= passed_by_next;
        }
    }
    windows.passed[byte] = passed;
    windows.end[byte] = u16(next);
    chain.exit[byte] = next >= after && next < warp_end ? chain.exit[next] : u16(next);
    __syncwarp();
}

// Finds the sequences that begin within a tile from `in.at` on, and returns their number. The chain ends at a
// sequence that is decoded alone, is not complete, or begins outside of the tile: `end` is its position.
template <typename Codec>
GALATEA_INLINE u32 find_chain(Chain& chain, Windows& windows, const PageBytes& in, u32& end) {
    constexpr u32 ALL = 0xffffffffu;
    constexpr u32 NOWHERE = 0xffffffffu;
    const u32 first = warp() * CHAIN_WINDOWS;
#pragma unroll 2
    for (u32 window = CHAIN_WINDOWS; window-- > 0;) {
        follow_window<Codec>(chain, windows, in, first + window, warp() * WARP_BYTES + WARP_BYTES);
    }
    __syncthreads();
    u32 at = 0;
    u32 entry = NOWHERE;
#pragma unroll 1
    for (u32 other = 0; other < CHAIN_WARPS; ++other) {
        if (at / WARP_BYTES != other) continue;
        if (other == warp()) entry = at;
        at = chain.exit[at];
        if (at / WARP_BYTES == other) break;
    }
    end = at;
    // Lane i receives the bits of window i of its warp.
    u32 begins = 0;
#pragma unroll 1
    for (u32 window = 0; window < CHAIN_WINDOWS; ++window) {
        if (entry / WARP != first + window) continue;
        const u32 next = windows.end[entry];
        const bool stays = next / WARP == first + window;
        if (lane() == window) begins = windows.passed[entry] & ~(stays ? 1u << next % WARP : 0);
        entry = stays ? NOWHERE : next;
    }
    u32 through;
    const u32 before_window = warp_exclusive_scan(u32(__popc(begins)), Sum{}, through);
    if (lane() == WARP - 1) chain.counts[warp()] = through;
    __syncthreads();
    u32 before = 0;
    u32 total = 0;
#pragma unroll
    for (u32 other = 0; other < CHAIN_WARPS; ++other) {
        const u32 of_other = chain.counts[other];
        if (other < warp()) before += of_other;
        total += of_other;
    }
#pragma unroll 2
    for (u32 window = 0; window < CHAIN_WINDOWS; ++window) {
        const u32 of_window = __shfl_sync(ALL, begins, window);
        const u32 position = before + __shfl_sync(ALL, before_window, window) + __popc(of_window & lanes_before());
        if (of_window >> lane() & 1) chain.begin[position] = u16((first + window) * WARP + lane());
    }
    __syncthreads();
    return total;
}

}  // namespace galatea
