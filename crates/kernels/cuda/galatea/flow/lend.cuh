// Buffers that blocks lend to the host. An exhausted heap takes buffers that the other side does not use
// (XeFlow, section 4.4); only blocks have the information which frames of a device's heap are in use.
//
// The host writes the number of a buffer to a control word, once, and blocks remove its frames from the heap
// as they become free: the first block takes those that have been read or are unused, and each block those
// that it has taken ahead. The frames are marked as lent, in words behind the bitmap. When all are lent, the
// first block reports it, and the buffer belongs to the host until the run ends. A heap keeps one frame for
// each block, so blocks continue meanwhile.
#pragma once

#include "galatea/flow/board.cuh"

namespace galatea {

// The request of the host: number of a heap, plus 1, in the high half; of its buffer in the low half; or 0.
GALATEA_INLINE u32 number_asked(u64 asked) { return u32(asked >> 32) - 1; }
GALATEA_INLINE u32 buffer_asked(u64 asked) { return u32(asked); }

// The words that mark lent frames, indexed like the bitmap.
GALATEA_INLINE u32* lent_words(const FlowHeap& heap) { return heap.bitmap + heap.most_buffers * heap.words_per_buffer; }

// Lends the frame that a station has taken ahead, if it belongs to the requested buffer: the station would
// keep it as long as it has no input.
GALATEA_INLINE void lend_output(const FlowBoard& board, FlowStation& own, u32 op, u64 asked) {
    if (own.output == ABSENT || own.input != 0) return;
    const FlowTopic& next = board.topics[board.operators[op].next];
    if (next.heap != number_asked(asked)) return;
    const FlowHeap& heap = board.heaps[next.heap];
    if (own.output / (heap.words_per_buffer * 32) != buffer_asked(asked)) return;
    fence(true);
    atomicOr(lent_words(heap) + own.output / 32, 1u << own.output % 32);
    atomicSub(&next.cursor->in_use, 1u);
    own.output = ABSENT;
}

// Lends the unused frames; returns whether all frames of the buffer are lent. By a whole warp.
GALATEA_INLINE bool lend_free(const FlowHeap& heap, u32 buffer) {
    bool all = true;
    for (u32 word = lane(); word < heap.words_per_buffer; word += WARP) {
        const u32 at = buffer * heap.words_per_buffer + word;
        const u32 frames = heap.frames_per_buffer - word * 32;
        const u32 asked = u32(low_bits(frames < 32 ? frames : 32));
        const u32 claimed = claim_bits(heap.bitmap + at, asked) & asked;
        all &= (atomicOr(lent_words(heap) + at, claimed) | claimed) == asked;
    }
    return __all_sync(0xffffffffu, all);
}

// Performs one step of lending the buffer that the host requests. By the first warp.
GALATEA_NOINLINE void lend(const FlowArguments& args, FlowBoard& board, FlowStation& own, u64 asked) {
    if (threadIdx.x < args.operator_count) lend_output(board, own, threadIdx.x, asked);
    __syncwarp();
    if (blockIdx.x != 0 || asked == board.lent) return;
    for (u32 topic = 0; topic < args.topic_count; ++topic) {
        const FlowTopic& of_heap = board.topics[topic];
        if (of_heap.heap == number_asked(asked)) reclaim(of_heap, board.heaps[of_heap.heap]);
    }
    if (!lend_free(board.heaps[number_asked(asked)], buffer_asked(asked))) return;
    // The host's writes to the frames are ordered after all accesses of the blocks.
    fence(true);
    __syncwarp();
    if (lane() == 0) {
        board.lent = asked;
        store_relaxed_system(args.control + CONTROL_LINE + BLOCK_LENT, asked);
    }
    __syncwarp();
}

}  // namespace galatea
