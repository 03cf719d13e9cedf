// The frame word, and the heap that frames come from.
#pragma once

#include "galatea/flow/catalogue.h"
#include "galatea/heap/bits.cuh"
#include "galatea/link.cuh"
#include "galatea/thread.cuh"

namespace galatea {

// A published frame in one word, so that a single load tells whether it is there, where, and how long:
// bits 0-3 the generation of its slot, 4-28 its length in bytes, 29-63 its address without the 12 bits that
// are zero in a page's. Generations run from 1 to 15, so no word of an earlier one is taken for it as long as
// tickets are less than 15 times the depth ahead of what was acknowledged, which the host checks.
// The depth is a power of two: its logarithm takes an instruction, a division of 64 bits a hundred.
GALATEA_INLINE u32 generation(u64 offset, u32 depth) { return u32((offset >> (31 - __clz(i32(depth)))) % 15) + 1; }
GALATEA_INLINE u64 frame_word(u64 address, u32 length, u64 offset, u32 depth) {
    return (address >> 12) << 29 | u64(length) << 4 | generation(offset, depth);
}
GALATEA_INLINE bool frame_is(u64 word, u64 offset, u32 depth) { return (word & 15) == generation(offset, depth); }
GALATEA_INLINE u64 frame_address(u64 word) { return (word >> 29) << 12; }
GALATEA_INLINE u32 frame_length(u64 word) { return u32(word >> 4) & 0x1ffffffu; }

// Takes a frame: its number, or ABSENT. Bits are probed word by word from a hashed start (XeFlow, section
// 4.4). A thread does so alone, not a warp together as in the device heap: lanes that look for frames at once
// are of operators with heaps of their own.
//
// Of an exhausted heap it asks the host for a buffer (`asks`) by a word that is another one each time, so
// that the host can tell a heap that is exhausted from one that was.
GALATEA_NOINLINE u32 take_frame(const FlowHeap& heap, u64 seed, bool asks) {
    const u32 buffers = heap.most_buffers == 1 ? 1 : *static_cast<volatile u32*>(heap.buffers);
    const u32 words = buffers * heap.words_per_buffer;
    const u32 frame = claim_from(heap.bitmap, words, u32(scaled(mix64(seed), words)));
    if (frame != NO_BIT) return frame;
    // Exhausted. Buffers that the host has granted since are taken up, or one more is asked for; either way
    // the next round looks again. Several blocks may do so at once: they store the same.
    const u64 granted = load_acquire_system(heap.granted);
    if (granted > buffers) {
        for (u32 buffer = buffers; buffer < granted; ++buffer) {
            *static_cast<volatile u64*>(heap.bases + buffer) = load_relaxed_system(heap.granted + 1 + buffer);
        }
        __threadfence();
        atomicMax(heap.buffers, u32(granted));
    } else if (asks) {
        store_relaxed_system(heap.wanted, mix64(seed) << 32 | (buffers + 1));
    }
    return ABSENT;
}

// Gives a frame back, which nobody reads or writes any more.
GALATEA_INLINE void give_frame(const FlowHeap& heap, u32 frame) {
    const u32 bit = 1u << frame % 32;
    const u32 before = free_bits(heap.bitmap + frame / 32, bit);
    if (HEAP_CHECKS && (before & bit) != 0) atomicAdd(heap.buffers + 1, 1u);
}

// Where a frame is.
GALATEA_INLINE u64 frame_at(const FlowHeap& heap, u32 frame) {
    const u32 bits = heap.words_per_buffer * 32;
    const u64 base = *static_cast<volatile u64*>(heap.bases + frame / bits);
    return base + u64(frame % bits) * heap.frame_bytes;
}

}  // namespace galatea
