// The frame word, and the heap that frames are taken from.
#pragma once

#include "galatea/flow/catalogue.h"
#include "galatea/heap/bits.cuh"
#include "galatea/link.cuh"
#include "galatea/thread.cuh"

namespace galatea {

// A published frame in one word, so that a single load returns whether it is published, its address and its
// length: bits 0-3 are the generation of its slot, 4-28 its length in bytes, 29-63 its address without the 12
// bits that are zero for a page. Generations run from 1 to 15, so the word of an earlier frame is not
// mistaken for it while tickets are less than 15 times the depth ahead of the acknowledgements; the host
// checks this. The depth is a power of two: its logarithm takes one instruction, a 64-bit division about a
// hundred.
GALATEA_INLINE u32 generation(u64 offset, u32 depth) { return u32((offset >> (31 - __clz(i32(depth)))) % 15) + 1; }
GALATEA_INLINE u64 frame_word(u64 address, u32 length, u64 offset, u32 depth) {
    return (address >> 12) << 29 | u64(length) << 4 | generation(offset, depth);
}
GALATEA_INLINE bool frame_is(u64 word, u64 offset, u32 depth) { return (word & 15) == generation(offset, depth); }
GALATEA_INLINE u64 frame_address(u64 word) { return (word >> 29) << 12; }
GALATEA_INLINE u32 frame_length(u64 word) { return u32(word >> 4) & 0x1ffffffu; }

// Takes a frame: its number, or ABSENT. Bits are probed word by word from a hashed start (XeFlow, section
// 4.4). Each thread probes alone, unlike the warps of the device heap, because lanes that take frames at the
// same time belong to operators with separate heaps.
//
// If the heap is exhausted, it requests a buffer from the host (`asks`) by a word that differs each time, so
// that the host can distinguish a heap that is exhausted from one that was.
GALATEA_NOINLINE u32 take_frame(const FlowHeap& heap, u64 seed, bool asks) {
    const u32 buffers = heap.most_buffers == 1 ? 1 : *static_cast<volatile u32*>(heap.buffers);
    const u32 words = buffers * heap.words_per_buffer;
    const u32 frame = claim_from(heap.bitmap, words, u32(scaled(mix64(seed), words)));
    if (frame != NO_BIT) return frame;
    // The heap is exhausted: takes over buffers that the host has granted since, or requests one more; either
    // way the next round tries again. Several blocks may do so concurrently: they store the same values.
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

// Releases a frame, which no thread reads or writes any more.
GALATEA_INLINE void give_frame(const FlowHeap& heap, u32 frame) {
    const u32 bit = 1u << frame % 32;
    const u32 before = free_bits(heap.bitmap + frame / 32, bit);
    if (HEAP_CHECKS && (before & bit) != 0) atomicAdd(heap.buffers + 1, 1u);
}

// The address of a frame.
GALATEA_INLINE u64 frame_at(const FlowHeap& heap, u32 frame) {
    const u32 bits = heap.words_per_buffer * 32;
    const u64 base = *static_cast<volatile u64*>(heap.bases + frame / bits);
    return base + u64(frame % bits) * heap.frame_bytes;
}

}  // namespace galatea
