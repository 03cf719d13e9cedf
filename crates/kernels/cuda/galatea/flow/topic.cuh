// Operations of blocks on topics: publishing frames, and releasing those that were read.
//
// Functions are called by one thread for its block, except those of a whole warp.
#pragma once

#include "galatea/flow/frame.cuh"
#include "galatea/flow/inline.cuh"
#include "galatea/warp.cuh"

namespace galatea {

// Acknowledgements that a lane loads at once.
constexpr u32 ACKNOWLEDGED_AT_ONCE = 8;

// Frames that are taken for a topic and not released; a plain load.
GALATEA_INLINE u32 frames_in_use(const FlowTopic& topic) {
    return *static_cast<volatile u32*>(&topic.cursor->in_use);
}

// The offset below which the slots of a topic of inline frames are free. They remain free for the one block
// that owns such an offset.
GALATEA_INLINE u64 free_until(const FlowTopic& topic) {
    return *static_cast<volatile u64*>(&topic.cursor->reclaimed) + topic.depth;
}

// Releases the frames of the oldest offsets that every subscriber has acknowledged, in order. By a whole
// warp. Returns at once if another block is reclaiming.
//
// Acknowledgements of the host are read over the link, which takes as long as all earlier requests of the
// blocks: 50 us under load. So a warp reads 256 of them at once.
GALATEA_NOINLINE void reclaim(const FlowTopic& topic, const FlowHeap& heap) {
    constexpr u32 ALL = 0xffffffffu;
    FlowCursor* cursor = topic.cursor;
    u32 taken = 1;
    if (lane() == 0) taken = atomicCAS(&cursor->lock, 0u, 1u);
    if (__shfl_sync(ALL, taken, 0) != 0) return;
    fence(false);
    const u64 first = *static_cast<volatile u64*>(&cursor->reclaimed);
    const u64 tail = *static_cast<volatile u64*>(&cursor->tail);
    u32 pending = 0;  // bit k: offset first + 32 k + lane is not acknowledged by all
    for (u32 subscriber = 0; subscriber < topic.subscribers; ++subscriber) {
        const u64* words = topic.acknowledged + u64(subscriber) * topic.depth;
        u64 seen[ACKNOWLEDGED_AT_ONCE];
#pragma unroll
        for (u32 k = 0; k < ACKNOWLEDGED_AT_ONCE; ++k) {
            const u64 offset = first + k * WARP + lane();
            // Offsets `depth` apart have the same words.
            seen[k] = offset < tail ? load_relaxed_system(words + (offset & (topic.depth - 1))) : 0;
        }
#pragma unroll
        for (u32 k = 0; k < ACKNOWLEDGED_AT_ONCE; ++k) {
            pending |= u32(seen[k] != first + k * WARP + lane() + 1) << k;
        }
    }
    u32 count = 0;
    for (u32 k = 0; k < ACKNOWLEDGED_AT_ONCE && count == k * WARP; ++k) {
        const u32 missing = __ballot_sync(ALL, pending >> k & 1);
        count += missing == 0 ? WARP : __ffs(missing) - 1;
    }
    if (count > 0) {
        // Orders the subscribers' reads before the frames' next writes. For an inline frame they are
        // complete, since it is acknowledged.
        if (!is_inline(topic)) fence(topic.system != 0);
        for (u32 k = lane(); k < count && !is_inline(topic); k += WARP) {
            const u32* held = topic.held + ((first + k) & (topic.depth - 1));
            give_frame(heap, *static_cast<const volatile u32*>(held));
        }
        __syncwarp();
        fence(false);
        if (lane() == 0) {
            *static_cast<volatile u64*>(&cursor->reclaimed) = first + count;
            if (!is_inline(topic)) atomicSub(&cursor->in_use, count);
        }
    }
    fence(false);
    __syncwarp();
    if (lane() == 0) atomicExch(&cursor->lock, 0u);
}

// Copies the page of 64 frame words that contains the one of an offset to the replica, skipping unpublished
// ones, and returns the word of the offset. By a whole warp.
//
// Only frame words are copied: a slow block may overwrite one of a later generation, which its reader then
// copies again; copying the rest of a slot could produce a mixture of generations.
GALATEA_NOINLINE u64 copy_page(const FlowTopic& topic, u64 ticket) {
    constexpr u32 PAGE_SLOTS = 64;
    const u32 slots = topic.depth < PAGE_SLOTS ? topic.depth : PAGE_SLOTS;
    const u64 first = ticket & ~u64(slots - 1);
    u64 words[PAGE_SLOTS / WARP];
#pragma unroll
    for (u32 k = 0; k < PAGE_SLOTS / WARP; ++k) {
        const u32 place = k * WARP + lane();
        words[k] = place < slots ? load_acquire_system(slot_of(topic, first + place)) : 0;
    }
    // Makes the values that this warp has acquired visible to readers of the replica, including its other
    // lanes.
    fence(false);
    __syncwarp();
    u64 found = 0;
#pragma unroll
    for (u32 k = 0; k < PAGE_SLOTS / WARP; ++k) {
        const u64 offset = first + k * WARP + lane();
        if (k * WARP + lane() >= slots || !frame_is(words[k], offset, topic.depth)) continue;
        store_relaxed_system(topic.replica + (offset & (topic.depth - 1)), words[k]);
        if (offset == ticket) found = words[k];
    }
    return __shfl_sync(0xffffffffu, found, u32(ticket - first) % WARP);
}

// Takes a frame to be published later: its number, or ABSENT while subscribers are too far behind (back
// pressure) or the heap is exhausted. A topic never has more frames than slots, so the holder of a frame
// finds a free slot for it.
//
// Blocks take frames before they have anything to write (`ahead`), so that none waits for one when its input
// arrives; but only from the first half, or waiting blocks could hold all frames while a block with input
// finds none. They check before they count, because a count that is undone would look like frames to others,
// and they request no buffer: frames are reclaimed when a block with input needs one.
GALATEA_INLINE u32 take_output(const FlowTopic& topic, const FlowHeap& heap, bool ahead, u64 seed) {
    const u32 most = ahead ? topic.depth / 2 : topic.depth;
    if (frames_in_use(topic) >= most) return ABSENT;
    FlowCursor* cursor = topic.cursor;
    const u32 before = atomicAdd(&cursor->in_use, 1u);
    const u32 frame = before < most ? take_frame(heap, seed, !ahead) : ABSENT;
    if (frame == ABSENT) atomicSub(&cursor->in_use, 1u);
    return frame;
}

// Takes the offset of a written frame, and fills in the values to store for it once its bytes are visible.
GALATEA_INLINE void publish(const FlowTopic& topic, u32 frame, u64 address, u32 length, FlowNote& note) {
    const u64 offset = atomicAdd(&topic.cursor->tail, u64(1));
    const u32 place = u32(offset & (topic.depth - 1));
    *static_cast<volatile u32*>(topic.held + place) = frame;
    note.slot = topic.slots + u64(place) * SLOT_WORDS;
    note.word = frame_word(address, length, offset, topic.depth);
}

}  // namespace galatea
