// State that a block keeps of its operators: the board, in shared memory, and stations, in the registers of
// the first warp.
#pragma once

#include "galatea/args/flow.h"
#include "galatea/flow/outbox.cuh"
#include "galatea/flow/topic.cuh"
#include "galatea/flow/work.cuh"

namespace galatea {

// State shared by the threads of a block.
struct FlowBoard {
    FlowTopic topics[MOST_TOPICS];
    FlowOperator operators[MOST_OPERATORS];
    FlowHeap heaps[MOST_HEAPS];
    Work work[MOST_OPERATORS];
    alignas(16) u64 origin[MOST_OPERATORS][2];  // source offset and stamp of each operator's input
    InlineFrame inputs[MOST_OPERATORS];         // if frames are inline
    InlineFrame outputs[MOST_OPERATORS];
    u64 notes[MOST_OPERATORS][MOST_NOTES];      // ring of the numbers of the notes that a station has left
    u32 vector[32];  // the work vector: operator of each warp, or ABSENT
    u64 lent;        // the buffer last reported to the host: lend.cuh
    u32 leave;
};

// State that lane i of the first warp keeps of operator i in its registers.
struct FlowStation {
    u64 ticket;
    u64 input;    // frame word, 0 if there is none; for an inline frame, one without an address
    u64 address;  // of the output
    u64 free;     // if the next topic has inline frames: slots below this offset are known to be free
    u32 output;   // frame number, ABSENT if none; 0 for a free slot
    u32 notes;    // number of undelivered notes, and position of the first of them in the ring
    u32 first_note;
    bool open;    // the operator is not finished in this block
    bool ran;
};

GALATEA_INLINE bool has_next(const FlowOperator& own) { return own.next != ABSENT; }

// The heap of a topic that blocks publish; an arbitrary one for a topic of inline frames, which has no heap.
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

// Removes the notes of this station that have been delivered.
GALATEA_INLINE void forget_told(const FlowArguments& args, const FlowBoard& board, FlowStation& own) {
    if (own.notes == 0) return;
    const u64 told = *static_cast<const volatile u64*>(&args.outbox->committed);
    while (own.notes > 0 && board.notes[threadIdx.x][own.first_note % MOST_NOTES] < told) {
        ++own.first_note;
        --own.notes;
    }
}

// Delivers the notes of this block and those that others have left, unless another block is delivering. By
// the first warp.
GALATEA_INLINE void tell_left(const FlowArguments& args, const FlowBoard& board, FlowStation& own) {
    if (!__any_sync(0xffffffffu, own.notes != 0) || !try_lock(args.outbox)) return;
    tell_notes(args.outbox, args.notes);
    unlock(args.outbox);
    forget_told(args, board, own);
}

}  // namespace galatea
