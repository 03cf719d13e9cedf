// Inline frames: frames of at most MOST_INLINE_BYTES bytes that are stored in the slots of the offset index.
//
// The high half of each 64-bit word of such a slot is data, and the low half is the offset of the frame. A
// warp loads or stores a slot by one instruction, one word per lane. Words are never torn, in whatever order
// they arrive, and a warp that finds the offset in all of them has the frame: one read over the link
// transfers it, and its publisher needs no fence.
//
// The acknowledgement needs no fence, either: the values that a slot's reader has seen in every word cannot
// be those stored there later as a consequence of it.
#pragma once

#include "galatea/flow/catalogue.h"
#include "galatea/link.cuh"
#include "galatea/warp.cuh"

namespace galatea {

// An inline frame in shared memory, aligned for items of up to 16 bytes.
struct alignas(16) InlineFrame {
    u32 words[28];
};
static_assert(sizeof(InlineFrame) >= MOST_INLINE_BYTES, "a frame has its bytes");

GALATEA_INLINE bool is_inline(const FlowTopic& topic) { return topic.slot_words != SLOT_WORDS; }
GALATEA_INLINE u32 inline_tag(u64 offset) { return u32(offset + 1); }
GALATEA_INLINE u64* slot_of(const FlowTopic& topic, u64 offset) {
    return topic.slots + (offset & (topic.depth - 1)) * topic.slot_words;
}

// Loads this lane's word of a slot. By a whole warp.
GALATEA_INLINE u64 ask_inline(const FlowTopic& topic, u64 offset) {
    return lane() < topic.slot_words ? load_relaxed_system(slot_of(topic, offset) + lane()) : inline_tag(offset);
}

// Whether the words of the lanes are the frame of an offset; if so, its bytes and its origin are stored. By a
// whole warp.
GALATEA_INLINE bool take_inline(u64 word, u64 offset, InlineFrame& frame, u64* origin, u32& length) {
    constexpr u32 ALL = 0xffffffffu;
    if (!__all_sync(ALL, u32(word) == inline_tag(offset))) return false;
    const u32 data = u32(word >> 32);
    length = __shfl_sync(ALL, data, INLINE_LENGTH);
    if (lane() >= INLINE_HEADER) {
        frame.words[lane() - INLINE_HEADER] = data;
    } else if (lane() >= INLINE_ORIGIN) {
        reinterpret_cast<u32*>(origin)[lane() - INLINE_ORIGIN] = data;
    }
    return true;
}

// Publishes a frame. By a whole warp, the only one that owns the offset.
GALATEA_INLINE void store_inline(const FlowTopic& topic, u64 offset, const InlineFrame& frame, const u64* origin,
                                 u32 length) {
    u32 data = 0;
    if (lane() >= INLINE_HEADER) {
        data = frame.words[lane() - INLINE_HEADER];
    } else if (lane() >= INLINE_ORIGIN) {
        data = reinterpret_cast<const u32*>(origin)[lane() - INLINE_ORIGIN];
    } else if (lane() == INLINE_LENGTH) {
        data = length;
    }
    const u64 word = u64(data) << 32 | inline_tag(offset);
    if (lane() < topic.slot_words) store_relaxed_system(slot_of(topic, offset) + lane(), word);
}

}  // namespace galatea
