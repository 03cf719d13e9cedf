// What a block knows of its operators: the board, in shared memory, and stations, in the first warp's
// registers.
#pragma once

#include "galatea/args/flow.h"
#include "galatea/flow/outbox.cuh"
#include "galatea/flow/topic.cuh"
#include "galatea/flow/work.cuh"

namespace galatea {

// What the threads of a block share.
struct FlowBoard {
    FlowTopic topics[MOST_TOPICS];
    FlowOperator operators[MOST_OPERATORS];
    FlowHeap heaps[MOST_HEAPS];
    Work work[MOST_OPERATORS];
    alignas(16) u64 origin[MOST_OPERATORS][2];  // source offset and stamp of each operator's input
    InlineFrame inputs[MOST_OPERATORS];         // where frames are inline
    InlineFrame outputs[MOST_OPERATORS];
    u64 notes[MOST_OPERATORS][MOST_NOTES];      // numbers of the notes that a station has left, a ring
    u32 vector[32];  // the work vector: operator of each warp, or ABSENT
    u64 lent;        // the buffer that the host has been told of last: lend.cuh
    u32 leave;
};

// What lane i of the first warp knows of operator i; in its registers.
struct FlowStation {
    u64 ticket;
    u64 input;    // frame word, 0 while there is none; of an inline frame one without an address
    u64 address;  // of the output
    u64 free;     // of a next topic of inline frames: slots below this offset are free, as far as is known
    u32 output;   // frame number, ABSENT while there is none; 0 for a free slot
    u32 notes;    // notes that have not been told, and where the first of them is in the ring
    u32 first_note;
    bool open;    // the operator is not finished in this block
    bool ran;
};

GALATEA_INLINE bool has_next(const FlowOperator& own) { return own.next != ABSENT; }

// The heap of a topic that blocks publish; any for a topic of inline frames, which has none.
GALATEA_INLINE const FlowHeap& heap_of(const FlowBoard& board, const FlowTopic& topic) {
    return board.heaps[topic.heap == ABSENT ? 0 : topic.heap];
}

GALATEA_INLINE void report(const FlowArguments& args, u32 code, u32 op, u64 source) {
    u64* line = args.control + u64(blockIdx.x + 1) * CONTROL_LINE;
    store_relaxed_system(line + BLOCK_OPERATOR, op);
    store_relaxed_system(line + BLOCK_SOURCE, source);
    fence(true);
    store_relaxed_system(line + BLOCK_FAILURE, code);
}

// Forgets the notes of this station that have been told.
GALATEA_INLINE void forget_told(const FlowArguments& args, const FlowBoard& board, FlowStation& own) {
    if (own.notes == 0) return;
    const u64 told = *static_cast<const volatile u64*>(&args.outbox->committed);
    while (own.notes > 0 && board.notes[threadIdx.x][own.first_note % MOST_NOTES] < told) {
        ++own.first_note;
        --own.notes;
    }
}

// Tells what this block's notes say and what others have left, if no other block is at it. By the first warp.
GALATEA_INLINE void tell_left(const FlowArguments& args, const FlowBoard& board, FlowStation& own) {
    if (!__any_sync(0xffffffffu, own.notes != 0) || !try_lock(args.outbox)) return;
    tell_notes(args.outbox, args.notes);
    unlock(args.outbox);
    forget_told(args, board, own);
}

}  // namespace galatea
