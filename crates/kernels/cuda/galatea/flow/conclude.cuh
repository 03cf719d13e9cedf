// The end of a round: publishes outputs, acknowledges inputs, and takes the next tickets.
#pragma once

#include "galatea/flow/board.cuh"

namespace galatea {

// Whether at least half of the topic that a lane publishes is in use.
GALATEA_INLINE bool is_half_full(const FlowTopic& next, FlowStation& own) {
    if (!is_inline(next)) return frames_in_use(next) * 2 >= next.depth;
    const auto half = [&] { return own.ticket + next.depth / 2 >= own.free; };
    if (half()) own.free = free_until(next);
    return half();
}

// Releases the frames that have been read of the topics published by the lanes with `asks`, if a topic is at
// least half full. By the first warp.
GALATEA_INLINE void reclaim_outputs(FlowBoard& board, FlowStation& own, bool asks) {
    bool full = false;
    if (asks) full = is_half_full(board.topics[board.operators[threadIdx.x].next], own);
    for (u32 among = __ballot_sync(0xffffffffu, full); among != 0; among &= among - 1) {
        const FlowTopic& next = board.topics[board.operators[__ffs(among) - 1].next];
        reclaim(next, heap_of(board, next));
    }
}

// Releases frames that have been read for stuck lanes, which have an input and no frame for its output.
//
// If a topic has free slots, its heap is exhausted. A heap that begins with few buffers has fewer frames than
// its topics have slots, so frames are reclaimed however few slots are in use; frames of the other topics of
// the heap are reclaimed, too, because their publishers may have nothing to publish. By the first warp.
GALATEA_NOINLINE void reclaim_for_stuck(FlowBoard& board, u32 topics, bool stuck) {
    constexpr u32 ALL = 0xffffffffu;
    bool exhausted = false;
    if (stuck) {
        const FlowTopic& next = board.topics[board.operators[threadIdx.x].next];
        exhausted = !is_inline(next) && frames_in_use(next) < next.depth;
    }
    const u32 whole_heaps = __ballot_sync(ALL, exhausted);
    for (u32 among = __ballot_sync(ALL, stuck); among != 0; among &= among - 1) {
        const u32 op = __ffs(among) - 1;
        const u32 next = board.operators[op].next;
        const u32 heap = board.topics[next].heap;
        for (u32 topic = 0; topic < topics; ++topic) {
            const bool of_heap = (whole_heaps >> op & 1) && board.topics[topic].heap == heap;
            if (topic == next || of_heap) reclaim(board.topics[topic], heap_of(board, board.topics[topic]));
        }
    }
}

// Whether the body of this lane's operator succeeded; reports a failure.
GALATEA_INLINE bool is_content(const FlowArguments& args, const FlowBoard& board) {
    const u32 op = threadIdx.x;
    const Work& work = board.work[op];
    u32 failure = work.failure;
    if (failure == 0 && has_next(board.operators[op]) && work.bytes_out > work.capacity) failure = FAILURE_OUTPUT_LENGTH;
    if (failure != 0) report(args, failure, op, board.origin[op][0]);
    return failure == 0;
}

// Publishes the inline frames of the lanes with `shows`, each under the offset of its input: an operator
// produces one per input, so blocks need no counter for offsets. By the first warp.
GALATEA_INLINE void show_inline(const FlowBoard& board, const FlowStation& own, bool shows) {
    constexpr u32 ALL = 0xffffffffu;
    for (u32 among = __ballot_sync(ALL, shows); among != 0; among &= among - 1) {
        const u32 op = __ffs(among) - 1;
        const FlowTopic& next = board.topics[board.operators[op].next];
        const u64 offset = __shfl_sync(ALL, own.ticket, op);
        store_inline(next, offset, board.outputs[op], board.origin[op], board.work[op].bytes_out);
        // The total number is read at the end of the topic.
        if (lane() == op) atomicAdd(&next.cursor->tail, u64(1));
    }
}

// Publishes this lane's frame for other blocks, or writes the values to store for the host to `note`.
GALATEA_INLINE void publish_frame(const FlowTopic& next, const FlowStation& own, u32 length, FlowNote& note) {
    publish(next, own.output, own.address, length, note);
    if (next.system != 0) return;
    prepare(note);
    fence(false);
    store_relaxed_system(note.slot, note.word);
    note.slot = nullptr;
}

// Concludes the round of all operators that ran, and notifies the host. By the first warp; returns whether
// all bodies succeeded.
//
// The stores that the host waits for are first; between them no step waits for a result that is needed only
// later.
GALATEA_INLINE bool conclude_all(const FlowArguments& args, FlowBoard& board, FlowStation& own) {
    constexpr u32 ALL = 0xffffffffu;
    const u32 op = threadIdx.x;
    finish_copies();
    // A lane has waited only for its own copies, and all lanes publish inline frames.
    __syncwarp();
    const bool content = !own.ran || is_content(args, board);
    const bool ran = own.ran && content;
    own.ran = false;

    const FlowOperator& of = board.operators[op < args.operator_count ? op : 0];
    const FlowTopic& previous = board.topics[of.previous];
    const FlowTopic& next = board.topics[has_next(of) ? of.next : of.previous];
    const bool publishes = ran && has_next(of);
    show_inline(board, own, publishes && is_inline(next));

    u64* acknowledged = previous.acknowledged + u64(of.subscriber) * previous.depth + (own.ticket & (previous.depth - 1));
    const bool reads_inline = ran && is_inline(previous);
    const bool reads_host = ran && !reads_inline && previous.cursor == nullptr;
    if (reads_inline) store_relaxed_system(acknowledged, own.ticket + 1);

    const bool publishes_frame = publishes && !is_inline(next);
    const bool tells = reads_host || (publishes_frame && next.system != 0);
    const bool any = __any_sync(ALL, tells);
    // A single block has exclusive use of the outbox.
    const bool alone = gridDim.x == 1;
    u32 locked = 0;
    if (any && !alone && lane() == 0) locked = atomicCAS(&args.outbox->lock, 0u, 1u);
    FlowNote note = {};
    if (ran) {
        note.source = board.origin[op][0];
        note.stamp = board.origin[op][1];
    }
    if (publishes_frame) publish_frame(next, own, board.work[op].bytes_out, note);
    if (reads_host) {
        note.acknowledged = acknowledged;
        note.offset = own.ticket + 1;
    } else if (ran && !reads_inline) {
        fence(false);
        store_relaxed_system(acknowledged, own.ticket + 1);
    }
    if (any) {
        if (__shfl_sync(ALL, locked, 0) == 0) {
            if (tells) prepare(note);
            fence(true);
            if (tells) tell(note);
            __syncwarp();
            if (!alone) {
                tell_notes(args.outbox, args.notes);
                unlock(args.outbox);
            }
        } else if (tells) {
            board.notes[op][(own.first_note + own.notes) % MOST_NOTES] = leave_note(args.outbox, args.notes, note);
            ++own.notes;
        }
    }
    if (ran) {
        own.input = 0;
        own.output = ABSENT;
        own.ticket = alone ? own.ticket + 1 : atomicAdd(of.ticket, u64(1));
    }
    // After the host is notified, frames that it has read are reclaimed.
    reclaim_outputs(board, own, ran && has_next(of));
    return __all_sync(ALL, content);
}

// Releases the frame that a station has taken and does not publish.
GALATEA_INLINE void drop_output(FlowBoard& board, FlowStation& own, u32 op) {
    if (own.output == ABSENT) return;
    const FlowTopic& next = board.topics[board.operators[op].next];
    if (!is_inline(next)) {
        give_frame(heap_of(board, next), own.output);
        atomicSub(&next.cursor->in_use, 1u);
    }
    own.output = ABSENT;
}

// Closes the topic that an operator publishes, when its last block has finished.
GALATEA_NOINLINE void close_topic(const FlowOperator& of, const FlowTopic& next) {
    __threadfence();
    if (atomicSub(of.remaining, 1u) != 1 || !has_next(of)) return;
    fence(true);
    store_relaxed_system(next.end, atomicAdd(&next.cursor->tail, u64(0)));
}

// Called when the operator has read all its input in this block.
GALATEA_INLINE void finish(FlowBoard& board, FlowStation& own, u32 op) {
    const FlowOperator& of = board.operators[op];
    own.open = false;
    drop_output(board, own, op);
    close_topic(of, board.topics[has_next(of) ? of.next : of.previous]);
}

}  // namespace galatea
