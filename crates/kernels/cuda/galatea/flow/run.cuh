// Grid scope. The loop of a persistent kernel that runs all operators of a topology on the device (XeFlow,
// section 5, algorithm 2).
//
// Blocks run it on their own, without a barrier of the grid. Each takes tickets, the offsets that it is going
// to read, so a block reads a part of every topic's frames. In a round, lane i of the first warp looks for
// operator i whether its input has been published, and takes a frame for its output; the lanes then write the
// work vector, which tells each warp its operator; the warps compute; and the lanes publish. A look at a
// topic that has nothing to read fails and is repeated in the next round, so no operator waits for another.
//
// A warp looks at all its topics by one load of an address a lane, and in some rounds at their ends and the
// host's control words as well: a look takes one round trip over the link, however many operators there are.
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
    u32 vector[32];  // the work vector: operator of each warp, or ABSENT
    u32 leave;
};

// What lane i of the first warp knows of operator i; in its registers.
struct FlowStation {
    u64 ticket;
    u64 input;    // frame word, 0 while there is none
    u64 address;  // of the output
    u64 note;     // number of its last note + 1, 0 when that has been told
    u32 output;   // frame number, ABSENT while there is none
    bool open;    // the operator is not finished in this block
    bool ran;
};

// Rounds between two looks at the ends of topics, and at the host's control words.
constexpr u32 ROUNDS_PER_END = 16;
constexpr u32 ROUNDS_PER_BEAT = 64;

GALATEA_INLINE bool has_next(const FlowOperator& own) { return own.next != ABSENT; }

GALATEA_INLINE void report(const FlowArguments& args, u32 code, u32 op, u64 source) {
    u64* line = args.control + u64(blockIdx.x + 1) * CONTROL_LINE;
    store_relaxed_system(line + BLOCK_OPERATOR, op);
    store_relaxed_system(line + BLOCK_SOURCE, source);
    fence(true);
    store_relaxed_system(line + BLOCK_FAILURE, code);
}

// The round's work is done: publishes the output, acknowledges the input, takes the next ticket. `note` is
// what the host has to be told, if anything. Whether the body was content.
GALATEA_INLINE bool conclude(const FlowArguments& args, FlowBoard& board, FlowStation& own, u32 op, FlowNote& note) {
    const FlowOperator& of = board.operators[op];
    const FlowTopic& previous = board.topics[of.previous];
    const Work& work = board.work[op];
    finish_copies();
    note.source = board.origin[op][0];
    note.stamp = board.origin[op][1];
    u32 failure = work.failure;
    if (failure == 0 && has_next(of) && work.bytes_out > work.capacity) failure = FAILURE_OUTPUT_LENGTH;
    if (failure != 0) {
        report(args, failure, op, note.source);
        return false;
    }
    const u64 place = own.ticket & (previous.depth - 1);
    u64* acknowledged = previous.acknowledged + u64(of.subscriber) * previous.depth + place;
    if (has_next(of)) {
        const FlowTopic& next = board.topics[of.next];
        publish(next, own.output, own.address, work.bytes_out, note);
        own.output = ABSENT;
        if (next.system == 0) {
            // Between blocks of this device.
            prepare(note);
            fence(false);
            store_relaxed_system(note.slot, note.word);
            note.slot = nullptr;
        }
    }
    if (previous.cursor == nullptr) {
        note.acknowledged = acknowledged;
        note.offset = own.ticket + 1;
    } else {
        fence(false);
        store_relaxed_system(acknowledged, own.ticket + 1);
    }
    own.input = 0;
    own.ticket = atomicAdd(of.ticket, u64(1));
    return true;
}

// Gives back what has been read of the topics that the lanes with `asks` publish, where much is in use. By
// the first warp.
GALATEA_INLINE void reclaim_outputs(const FlowArguments& args, FlowBoard& board, bool asks) {
    bool full = false;
    if (asks && threadIdx.x < args.operator_count && has_next(board.operators[threadIdx.x])) {
        const FlowTopic& next = board.topics[board.operators[threadIdx.x].next];
        full = frames_in_use(next) * 2 >= next.depth;
    }
    for (u32 among = __ballot_sync(0xffffffffu, full); among != 0; among &= among - 1) {
        const FlowTopic& next = board.topics[board.operators[__ffs(among) - 1].next];
        reclaim(next, board.heaps[next.heap]);
    }
}

// Gives back what has been read for lanes that are stuck: they have an input, and no frame for its output.
//
// Where a topic has slots left, its heap is exhausted. A heap that begins with few buffers has fewer frames
// than its topics have slots, so its frames come back however few of the slots are in use; and those of its
// other topics, too, whose publishers may have nothing to publish. By the first warp.
GALATEA_INLINE void reclaim_for_stuck(const FlowArguments& args, FlowBoard& board, bool stuck) {
    constexpr u32 ALL = 0xffffffffu;
    bool exhausted = false;
    if (stuck) {
        const FlowTopic& next = board.topics[board.operators[threadIdx.x].next];
        exhausted = frames_in_use(next) < next.depth;
    }
    const u32 whole_heaps = __ballot_sync(ALL, exhausted);
    for (u32 among = __ballot_sync(ALL, stuck); among != 0; among &= among - 1) {
        const u32 op = __ffs(among) - 1;
        const u32 next = board.operators[op].next;
        const u32 heap = board.topics[next].heap;
        for (u32 topic = 0; topic < args.topic_count; ++topic) {
            const bool of_heap = (whole_heaps >> op & 1) && board.topics[topic].heap == heap;
            if (topic == next || of_heap) reclaim(board.topics[topic], board.heaps[heap]);
        }
    }
}

// Concludes the round of all operators that ran, and has the host told. By the first warp; whether all bodies
// were content.
GALATEA_INLINE bool conclude_all(const FlowArguments& args, FlowBoard& board, FlowStation& own) {
    constexpr u32 ALL = 0xffffffffu;
    FlowNote note = {};
    bool content = true;
    if (own.ran) content = conclude(args, board, own, threadIdx.x, note);
    const bool ran = own.ran && content;
    own.ran = false;
    const bool tells = note.slot != nullptr || note.acknowledged != nullptr;
    if (__any_sync(ALL, tells)) {
        if (try_lock(args.outbox)) {
            if (tells) prepare(note);
            fence(true);
            if (tells) tell(note);
            __syncwarp();
            tell_notes(args.outbox, args.notes);
            unlock(args.outbox);
        } else if (tells) {
            own.note = leave_note(args.outbox, args.notes, note) + 1;
        }
    }
    // After the host was told: frames that it has read come back.
    reclaim_outputs(args, board, ran);
    return __all_sync(ALL, content);
}

// Sees to the notes that this block has left: told by another block by now, or else by this one, if nobody is
// at it. By the first warp; whether all have been told.
GALATEA_INLINE bool see_to_notes(const FlowArguments& args, FlowStation& own) {
    constexpr u32 ALL = 0xffffffffu;
    if (!__any_sync(ALL, own.note != 0)) return true;
    if (own.note != 0 && is_told(args.outbox, own.note - 1)) own.note = 0;
    if (!__any_sync(ALL, own.note != 0)) return true;
    if (try_lock(args.outbox)) {
        tell_notes(args.outbox, args.notes);
        unlock(args.outbox);
        if (own.note != 0 && is_told(args.outbox, own.note - 1)) own.note = 0;
    }
    return !__any_sync(ALL, own.note != 0);
}

// The operator has read all there will be in this block. The last block closes the next topic.
GALATEA_INLINE void finish(FlowBoard& board, FlowStation& own, u32 op) {
    const FlowOperator& of = board.operators[op];
    own.open = false;
    if (own.output != ABSENT) {
        const FlowTopic& next = board.topics[of.next];
        give_frame(board.heaps[next.heap], own.output);
        atomicSub(&next.cursor->in_use, 1u);
        own.output = ABSENT;
    }
    __threadfence();
    if (atomicSub(of.remaining, 1u) != 1 || !has_next(of)) return;
    const FlowTopic& next = board.topics[of.next];
    fence(true);
    store_relaxed_system(next.end, atomicAdd(&next.cursor->tail, u64(0)));
}

// Gives each open (or ready) operator its share of the block's warps, in one piece, by the weights of the
// partition: lane = warp. Returns this warp's operator; `first` and `count` are those of operator `lane`.
GALATEA_INLINE u32 assign(const FlowBoard& board, u32 operators, u32 among, u32& first, u32& count) {
    const u32 lane = threadIdx.x;
    const u32 warps = blockDim.x / 32;
    u32 total = 0;
    for (u32 i = 0; i < operators; ++i) {
        if (among >> i & 1) total += board.operators[i].warps;
    }
    u32 chosen = ABSENT;
    u32 before = 0;
    for (u32 i = 0; i < operators; ++i) {
        if ((among >> i & 1) == 0) continue;
        const u32 begin = before * warps / total;
        before += board.operators[i].warps;
        const u32 end = before * warps / total;
        if (begin <= lane && lane < end) chosen = i;
        if (lane == i) {
            first = begin;
            count = end - begin;
        }
    }
    return chosen;
}

// Waits before the next look where others are ahead: the more tickets before this block's, the longer, so
// that blocks without a chance do not fill the link with requests. By the first warp, none of whose operators
// has work.
GALATEA_INLINE void rest(const FlowBoard& board, const FlowStation& own) {
    constexpr u32 NANOSECONDS_PER_TICKET = 16;
    constexpr u32 MOST_NANOSECONDS = 1000;
    u32 ahead = 0xffffffffu;
    if (own.open && own.input == 0) {
        // Every block holds one ticket, so the lowest is about as many below the next as there are blocks.
        const u64 next = gridDim.x == 1 ? 0 : *static_cast<volatile u64*>(board.operators[threadIdx.x].ticket);
        const u64 lowest = next < gridDim.x ? 0 : next - gridDim.x;
        ahead = own.ticket < lowest ? 0 : u32(own.ticket - lowest);
    } else if (own.open) {
        ahead = 0;
    }
    const u32 least = __reduce_min_sync(0xffffffffu, ahead);
    if (least > 1 && least != 0xffffffffu) {
        const u32 wait = least * NANOSECONDS_PER_TICKET;
        __nanosleep(wait < MOST_NANOSECONDS ? wait : MOST_NANOSECONDS);
    }
}

// One look and what follows from it, by the first warp. Returns, on all its lanes, the operators that have
// work.
GALATEA_INLINE u32 look(const FlowArguments& args, FlowBoard& board, FlowStation& own, bool content, u32 round,
                        u64& beat, u64& heard) {
    constexpr u32 ALL = 0xffffffffu;
    const u32 lane = threadIdx.x;
    const u32 operators = args.operator_count;
    const bool station = lane < operators;

    // One load for everything: slots; in some rounds their topics' ends; now and then stop and beat. Each
    // lane that loads is a request over the link of its own, so lanes without a need for it do not.
    const bool wanted = station && own.open && own.input == 0;
    const bool asks_ends = round % ROUNDS_PER_END == ROUNDS_PER_END - 1;
    const bool asks_host = round % ROUNDS_PER_BEAT == 0;
    const u32 of_lane = lane % MOST_OPERATORS < operators ? lane % MOST_OPERATORS : 0;
    const FlowTopic& topic = board.topics[board.operators[of_lane].previous];
    const u64* address = nullptr;
    if (wanted) address = topic.slots + (own.ticket & (topic.depth - 1)) * SLOT_WORDS;
    const u32 wanted_mask = __ballot_sync(ALL, wanted);
    if (asks_ends && lane / MOST_OPERATORS == 1 && (wanted_mask >> lane % MOST_OPERATORS & 1)) address = topic.end;
    if (asks_host && lane == 30) address = args.control + CONTROL_BEAT;
    if (asks_host && lane == 31) address = args.control + CONTROL_STOP;
    u64 seen = 0;
    if (address != nullptr) seen = load_acquire_system(address);
    u64 end = __shfl_sync(ALL, seen, lane % MOST_OPERATORS + MOST_OPERATORS);
    if (!asks_ends) end = ~0ull;
    bool leave = !content || __shfl_sync(ALL, seen, 31) != 0;

    if (lane == 30 && asks_host) {
        const u64 now = nanoseconds();
        if (seen != beat) {
            beat = seen;
            heard = now;
        } else if (now - heard > args.patience) {
            report(args, FAILURE_HOST_SILENT, ABSENT, 0);
            leave = true;
        }
    }
    if (lane == 29 && asks_host) {
        store_relaxed_system(args.control + u64(blockIdx.x + 1) * CONTROL_LINE + BLOCK_BEAT, u64(round) + 1);
    }

    if (wanted) {
        if (frame_is(seen, own.ticket, topic.depth)) {
            own.input = seen;
            // Not waited for before the output is published.
            const u64* slot = topic.slots + (own.ticket & (topic.depth - 1)) * SLOT_WORDS;
            start_copy16(board.origin[lane], slot + SLOT_SOURCE);
        } else if (end <= own.ticket) {
            finish(board, own, lane);
        }
    }
    if (station && own.open && own.output == ABSENT && has_next(board.operators[lane])) {
        const FlowTopic& next = board.topics[board.operators[lane].next];
        own.output = take_output(next, board.heaps[next.heap], own.input == 0, u64(blockIdx.x) << 32 | round);
        if (own.output != ABSENT) own.address = frame_at(board.heaps[next.heap], own.output);
    }
    const bool stuck = station && own.open && own.input != 0 && own.output == ABSENT && has_next(board.operators[lane]);
    if (__any_sync(ALL, stuck)) reclaim_for_stuck(args, board, stuck);

    // A station has one note at a time.
    const bool told = see_to_notes(args, own) || own.note == 0;
    const bool ready = told && station && own.open && own.input != 0 && (own.output != ABSENT || !has_next(board.operators[lane]));
    const u32 ready_mask = __ballot_sync(ALL, ready);
    const u32 open_mask = __ballot_sync(ALL, station && own.open);
    const bool any_leaves = __any_sync(ALL, leave);
    if (lane == 0) board.leave = any_leaves || open_mask == 0;
    if (any_leaves) return 0;
    if (ready_mask == 0) {
        rest(board, own);
        return 0;
    }

    u32 first = 0, count = 0;
    const u32 chosen = assign(board, operators, args.ready_only ? ready_mask : open_mask, first, count);
    board.vector[lane] = chosen != ABSENT && (ready_mask >> chosen & 1) ? chosen : ABSENT;
    if (ready) {
        Work& work = board.work[lane];
        const FlowOperator& of = board.operators[lane];
        work.frame_in = reinterpret_cast<const u8*>(frame_address(own.input));
        work.bytes_in = frame_length(own.input);
        work.slot = topic.slots + (own.ticket & (topic.depth - 1)) * SLOT_WORDS;
        work.own_parameters = of.parameters;
        work.frame_out = nullptr;
        work.capacity = 0;
        if (has_next(of)) {
            const FlowHeap& heap = board.heaps[board.topics[of.next].heap];
            work.frame_out = reinterpret_cast<u8*>(own.address);
            work.capacity = heap.frame_bytes;
        }
        work.bytes_out = work.bytes_in;
        work.first_warp = first;
        work.warps = count;
        work.failure = 0;
    }
    own.ran = ready;
    return ready_mask;
}

template <typename T> GALATEA_INLINE void copy_words(T* to, const T* from, u32 count) {
    const u32* source = reinterpret_cast<const u32*>(from);
    u32* target = reinterpret_cast<u32*>(to);
    for (u32 i = threadIdx.x; i < count * u32(sizeof(T) / 4); i += blockDim.x) target[i] = source[i];
}

// Runs until every operator has finished, or the host says stop. `Bodies` has begin(), called by all threads
// once, and compute(body, work), called by the threads of the warps that a round gave an operator.
template <typename Bodies> GALATEA_INLINE void run(const FlowArguments& args) {
    __shared__ FlowBoard board;
    copy_words(board.topics, args.topics, args.topic_count);
    copy_words(board.operators, args.operators, args.operator_count);
    copy_words(board.heaps, args.heaps, args.heap_count);
    Bodies::begin();
    __syncthreads();

    const bool leads = threadIdx.x < 32;
    FlowStation own = {0, 0, 0, 0, ABSENT, false, false};
    if (threadIdx.x < args.operator_count) {
        own.ticket = atomicAdd(board.operators[threadIdx.x].ticket, u64(1));
        own.open = true;
    }
    u64 beat = 0, heard = nanoseconds();
    u64 clocks[FLOW_STEPS] = {0, 0, 0, 0};
    u64 mark = clock64();
    // A lane's time goes to the step that just ended.
    const auto spent = [&](u32 step) {
        const u64 now = clock64();
        clocks[step] += now - mark;
        mark = now;
    };
    bool content = true;
    u32 round = 0;
    while (true) {
        if (leads) {
            // The other warps wait at the barrier while there is nothing to do.
            u32 ready = 0;
            for (bool looks = true; looks; ++round) {
                ready = look(args, board, own, content, round, beat, heard);
                if (threadIdx.x == 0) spent(ready != 0 ? STEP_LOOK : STEP_IDLE);
                __syncwarp();
                looks = ready == 0 && board.leave == 0;
            }
            if (ready == 0) board.vector[threadIdx.x] = ABSENT;
        }
        __syncthreads();
        if (board.leave) break;
        const u32 op = board.vector[threadIdx.x / 32];
        if (op != ABSENT) {
            const u64 began = args.times != nullptr ? clock64() : 0;
            Bodies::compute(board.operators[op].body, board.work[op]);
            if (args.times != nullptr && board.work[op].thread() == 0) {
                u64* times = args.times + blockIdx.x * (FLOW_STEPS + 2 * MOST_OPERATORS) + FLOW_STEPS;
                times[op * 2] += clock64() - began;
                times[op * 2 + 1] += board.work[op].bytes_in;
            }
        }
        __syncthreads();
        if (leads) {
            if (threadIdx.x == 0) spent(STEP_COMPUTE);
            // A body that failed ends the block; the host, which reads the report, stops the others.
            content = conclude_all(args, board, own);
            if (threadIdx.x == 0) spent(STEP_PUBLISH);
        }
    }
    // What was published is told before the block ends.
    if (leads) {
        while (!see_to_notes(args, own)) {}
    }
    if (leads && threadIdx.x < args.operator_count && own.output != ABSENT) {
        const FlowTopic& next = board.topics[board.operators[threadIdx.x].next];
        give_frame(board.heaps[next.heap], own.output);
        atomicSub(&next.cursor->in_use, 1u);
    }
    if (threadIdx.x == 0) {
        store_relaxed_system(args.control + u64(blockIdx.x + 1) * CONTROL_LINE + BLOCK_BEAT, BEAT_OVER);
    }
    if (args.times != nullptr && threadIdx.x == 0) {
        for (u32 step = 0; step < FLOW_STEPS; ++step) {
            args.times[blockIdx.x * (FLOW_STEPS + 2 * MOST_OPERATORS) + step] = clocks[step];
        }
    }
}

}  // namespace galatea
