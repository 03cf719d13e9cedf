// What blocks tell the host, many frames by one fence.
//
// Before the host is told of a frame, the frame's bytes must be visible to it: that takes a fence of system
// scope. The device executes these one after another, about one a microsecond, and each waits for all that
// the whole device has on its way to the host; a fence for each frame of each block limits the device to some
// hundred thousand frames a second and gets slower with every block. So a block that finds another one at it
// does not wait for its turn: it leaves a note, and the holder of the lock makes one fence for all notes that
// there are.
//
// A note is written before its number is released at device scope, and read after that is acquired; the fence
// of the reader comes after, so it covers the writer's frame as well.
#pragma once

#include "galatea/flow/catalogue.h"
#include "galatea/link.cuh"
#include "galatea/warp.cuh"

namespace galatea {

// Stores what a note says. The caller has made a fence since it knows of the note.
GALATEA_INLINE void tell(const FlowNote& note) {
    if (note.slot != nullptr) store_relaxed_system(note.slot, note.word);
    if (note.acknowledged != nullptr) store_relaxed_system(note.acknowledged, note.offset);
}

// What has to be stored before the fence.
GALATEA_INLINE void prepare(const FlowNote& note) {
    if (note.slot == nullptr) return;
    store_relaxed_system(note.slot + SLOT_SOURCE, note.source);
    store_relaxed_system(note.slot + SLOT_STAMP, note.stamp);
}

// Takes the lock, or not; the same on all lanes. By a whole warp.
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

// Tells all that notes say, a lane a note. By a whole warp that holds the lock.
GALATEA_NOINLINE void tell_notes(FlowOutbox* outbox, FlowNote* notes) {
    // What the last holder did comes before what this one does.
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

// Leaves a note, by one lane; its number. There is room: a station has at most MOST_NOTES at a time, and
// there are more entries than that for each.
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
