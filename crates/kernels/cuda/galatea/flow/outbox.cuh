// Notifications from blocks to the host, with one fence for many frames.
//
// Before the host is notified of a frame, the frame's bytes must be visible to it, which takes a fence of
// system scope. The device executes these fences one after another, about one a microsecond, and each waits
// for all writes of the whole device that are in flight to the host; a fence for each frame of each block
// limits the device to some hundred thousand frames a second and gets slower with every block. So a block
// that finds the outbox locked does not wait for its turn: it leaves a note, and the holder of the lock
// issues one fence for all notes.
//
// A note is written before its number is released at device scope, and read after the number is acquired; the
// reader's fence follows, so it covers the writer's frame as well.
#pragma once

#include "galatea/flow/catalogue.h"
#include "galatea/link.cuh"
#include "galatea/warp.cuh"

namespace galatea {

// Stores the words of a note. The caller has issued a fence since it acquired the note.
GALATEA_INLINE void tell(const FlowNote& note) {
    if (note.slot != nullptr) store_relaxed_system(note.slot, note.word);
    if (note.acknowledged != nullptr) store_relaxed_system(note.acknowledged, note.offset);
}

// Stores the words that must precede the fence.
GALATEA_INLINE void prepare(const FlowNote& note) {
    if (note.slot == nullptr) return;
    store_relaxed_system(note.slot + SLOT_SOURCE, note.source);
    store_relaxed_system(note.slot + SLOT_STAMP, note.stamp);
}

// Tries to take the lock; the result is the same on all lanes. By a whole warp.
GALATEA_INLINE bool try_lock(FlowOutbox* outbox) {
    u32 seen = 1;
    if (lane() == 0) seen = atomicCAS(&outbox->lock, 0u, 1u);
    return __shfl_sync(0xffffffffu, seen, 0) == 0;
}

GALATEA_INLINE void unlock(FlowOutbox* outbox) {
    fence(false);
    __syncwarp();
    if (lane() == 0) atomicExch(&outbox->lock, 0u);
}

// Delivers all notes, one per lane. By a whole warp that holds the lock.
GALATEA_NOINLINE void tell_notes(FlowOutbox* outbox, FlowNote* notes) {
    // Orders the previous holder's accesses before those of this one.
    fence(false);
    while (true) {
        const u64 first = *static_cast<volatile u64*>(&outbox->committed);
        FlowNote* place = notes + ((first + lane()) & outbox->mask);
        const bool ready = load_acquire_device(&place->ready) == first + lane() + 1;
        const u32 missing = ~__ballot_sync(0xffffffffu, ready);
        const u32 count = missing == 0 ? WARP : __ffs(missing) - 1;
        if (count == 0) return;
        FlowNote note = {};
        if (lane() < count) {
            note = *place;
            prepare(note);
        }
        fence(true);
        if (lane() < count) tell(note);
        __syncwarp();
        fence(false);
        if (lane() == 0) *static_cast<volatile u64*>(&outbox->committed) = first + count;
        __syncwarp();
    }
}

// Leaves a note, by one lane, and returns its number. It always fits: a station has at most MOST_NOTES at a
// time, and the outbox has more entries than that for each.
GALATEA_INLINE u64 leave_note(FlowOutbox* outbox, FlowNote* notes, const FlowNote& note) {
    const u64 number = atomicAdd(&outbox->tail, u64(1));
    FlowNote* place = notes + (number & outbox->mask);
    place->slot = note.slot;
    place->word = note.word;
    place->source = note.source;
    place->stamp = note.stamp;
    place->acknowledged = note.acknowledged;
    place->offset = note.offset;
    fence(false);
    *static_cast<volatile u64*>(&place->ready) = number + 1;
    return number;
}

}  // namespace galatea
