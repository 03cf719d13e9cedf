// Grid scope. The loop of a persistent kernel that runs all operators of a topology on the device (XeFlow,
// section 5, algorithm 2).
//
// Blocks run the loop independently, without a grid barrier. Each takes tickets, the offsets that it will
// read, so a block reads a part of every topic's frames. In a round, lane i of the first warp polls whether
// the input of operator i has been published, and takes a frame for its output; the lanes then write the work
// vector, which assigns an operator to each warp; the warps compute; and the lanes publish. A poll of an
// empty topic fails and is repeated in the next round, so no operator waits for another.
//
// A warp polls all its topics by one load with one address per lane, and in some rounds their ends and the
// host's control words as well; each topic of inline frames takes a load of its own. So a poll takes one
// round trip over the link for any number of operators with frames that are not inline.
#pragma once

#include "galatea/flow/conclude.cuh"
#include "galatea/flow/lend.cuh"

namespace galatea {

// Rounds between two polls of the ends of topics, and of the host's control words.
constexpr u32 ROUNDS_PER_END = 16;
constexpr u32 ROUNDS_PER_BEAT = 64;
// After a round of more clocks than this, about half a millisecond, a block polls the host's words and
// updates its heartbeat at once: counting only rounds, it would seem dead and notice a stop request late.
constexpr u64 LONG_ROUND = 1 << 20;

// Gives each open (or ready) operator its share of the block's warps, contiguous, by the weights of the
// partition: lane = warp. Returns this warp's operator; `first` and `count` are those of operator `lane`.
GALATEA_INLINE u32 assign(const FlowBoard& board, u32 operators, u32 among, u32& first, u32& count) {
    const u32 lane = threadIdx.x;
    const u32 warps = blockDim.x / 32;
    if ((among & (among - 1)) == 0) {
        count = warps;
        return __ffs(among) - 1;
    }
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

// Waits before the next poll if other blocks are ahead: longer if more tickets precede this block's, so that
// blocks that cannot be served yet do not fill the link with requests. `next` is the next ticket of this
// lane's operator. By the first warp, if none of its operators has work.
GALATEA_INLINE void rest(const FlowStation& own, u64 next) {
    constexpr u32 NANOSECONDS_PER_TICKET = 16;
    constexpr u32 MOST_NANOSECONDS = 1000;
    u32 ahead = 0xffffffffu;
    if (own.open && own.input == 0) {
        // Every block holds one ticket, so the lowest is about gridDim.x below the next.
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

// Polls of the first warp of a slot of inline frames that are in flight. A poll takes a round trip over the
// link, and a frame that is published just after it was answered waits for the next one: so two polls are in
// flight, half a round trip apart.
constexpr u64 MOST_HALF_TRIP = 2000;  // clocks

struct InlineLooks {
    u64 word;    // this lane's word of the slot of `ticket`; not waited for
    u64 ticket;
    u32 op;
    u32 idle;    // polls of the block without any work since the last
    u64 trip;    // clocks of a poll
};

// Polls for an operator's next inline frame: its frame word, without an address, or 0. By the first warp.
GALATEA_INLINE u64 look_inline(FlowBoard& board, u32 op, u64 ticket, bool keeps, InlineLooks& looks) {
    const FlowTopic& topic = board.topics[board.operators[op].previous];
    const u64 began = clock64();
    u64 word = ask_inline(topic, ticket);
    // With several blocks, each waits for its own ticket, and a second poll only delays the first (measured).
    keeps = keeps && gridDim.x == 1;
    if (keeps && looks.idle > 0) {
        const bool under_way = looks.op == op && looks.ticket == ticket;
        u64 later = word;
        if (!under_way) {
            const u64 half = looks.trip / 2;
            while (clock64() - began < (half < MOST_HALF_TRIP ? half : MOST_HALF_TRIP)) {}
            later = ask_inline(topic, ticket);
        } else {
            word = looks.word;
        }
        looks.word = later;
        looks.ticket = ticket;
        looks.op = op;
    }
    u32 length = 0;
    const bool there = take_inline(word, ticket, board.inputs[op], board.origin[op], length);
    if (keeps && looks.idle == 0) looks.trip = clock64() - began;
    return there ? frame_word(0, length, ticket, topic.depth) : 0;
}

// Applies a partition of the block's warps that the host has chosen since. By the first warp.
GALATEA_INLINE void repartition(const FlowArguments& args, FlowBoard& board, u64 shares) {
    if (shares != 0 && threadIdx.x < args.operator_count) {
        board.operators[threadIdx.x].warps = u32(shares >> 8 * threadIdx.x) & 255;
    }
    __syncwarp();
}

// Reports the times of the first block's operators to the host, if they are counted: after the lines of the
// control words. By the first warp.
GALATEA_INLINE void report_times(const FlowArguments& args) {
    if (args.times == nullptr || blockIdx.x != 0 || threadIdx.x >= args.operator_count) return;
    const volatile u64* times = args.times + FLOW_STEPS + 2 * threadIdx.x;
    u64* told = args.control + u64(gridDim.x + 1) * CONTROL_LINE + 2 * threadIdx.x;
    store_relaxed_system(told, times[0]);
    store_relaxed_system(told + 1, times[1]);
}

// One poll and the actions that follow from it, by the first warp. Returns, on all its lanes, the operators
// that have work.
GALATEA_INLINE u32 look(const FlowArguments& args, FlowBoard& board, FlowStation& own, bool content, u32 round,
                        InlineLooks& looks, u64& beat, u64& heard) {
    constexpr u32 ALL = 0xffffffffu;
    const u32 lane = threadIdx.x;
    const u32 operators = args.operator_count;
    const bool station = lane < operators;

    // One load for everything: slots; in some rounds the ends of their topics; periodically stop and
    // heartbeat. Each lane that loads is a separate request over the link, so lanes that need nothing do not
    // load.
    const bool wanted = station && own.open && own.input == 0;
    const bool asks_ends = round % ROUNDS_PER_END == ROUNDS_PER_END - 1;
    const bool asks_host = round % ROUNDS_PER_BEAT == 0;
    const u32 of_lane = lane % MOST_OPERATORS < operators ? lane % MOST_OPERATORS : 0;
    const FlowTopic& topic = board.topics[board.operators[of_lane].previous];
    const u64* address = nullptr;
    const bool wanted_inline = wanted && is_inline(topic);
    const bool wanted_frame = wanted && !wanted_inline;
    const bool replicated = wanted_frame && topic.replica != nullptr;
    if (wanted_frame) address = replicated ? topic.replica + (own.ticket & (topic.depth - 1)) : slot_of(topic, own.ticket);
    const u32 wanted_mask = __ballot_sync(ALL, wanted);
    const u32 inline_mask = __ballot_sync(ALL, wanted_inline);
    const bool of_wanted = wanted_mask >> lane % MOST_OPERATORS & 1;
    if (asks_ends && lane / MOST_OPERATORS == 1 && of_wanted) address = topic.end;
    if (asks_host && lane == 28) address = args.control + CONTROL_LEND;
    if (asks_host && lane == 29) address = args.control + CONTROL_PARTITION;
    if (asks_host && lane == 30) address = args.control + CONTROL_BEAT;
    if (asks_host && lane == 31) address = args.control + CONTROL_STOP;
    u64 next_ticket = own.ticket + 1;
    if (gridDim.x > 1 && wanted) next_ticket = load_relaxed_system(board.operators[of_lane].ticket);
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
    if (asks_host) {
        repartition(args, board, __shfl_sync(ALL, seen, 29));
        const u64 asked = __shfl_sync(ALL, seen, 28);
        if (asked != 0) lend(args, board, own, asked);
        report_times(args);
    }
    if (lane == 29 && asks_host) {
        store_relaxed_system(args.control + u64(blockIdx.x + 1) * CONTROL_LINE + BLOCK_BEAT, u64(round) + 1);
    }

    bool there = wanted_frame && frame_is(seen, own.ticket, topic.depth);
    for (u32 missing = __ballot_sync(ALL, replicated && !there); missing != 0; missing &= missing - 1) {
        const u32 op = __ffs(missing) - 1;
        const u64 word = copy_page(board.topics[board.operators[op].previous], __shfl_sync(ALL, own.ticket, op));
        if (lane == op && word != 0) {
            seen = word;
            there = true;
        }
    }
    if (there) {
        own.input = seen;
        // This copy is awaited only before the output is published.
        start_copy16(board.origin[lane], slot_of(topic, own.ticket) + SLOT_SOURCE);
    }
    for (u32 among = inline_mask; among != 0; among &= among - 1) {
        const u32 op = __ffs(among) - 1;
        const u64 word = look_inline(board, op, __shfl_sync(ALL, own.ticket, op), among == inline_mask, looks);
        if (lane == op) own.input = word;
    }
    if (wanted && own.input == 0 && end <= own.ticket) finish(board, own, lane);
    if (station && own.open && own.output == ABSENT && has_next(board.operators[lane])) {
        const FlowTopic& next = board.topics[board.operators[lane].next];
        if (is_inline(next)) {
            if (own.ticket >= own.free) own.free = free_until(next);
            if (own.ticket < own.free) own.output = 0;
        } else {
            const FlowHeap& heap = heap_of(board, next);
            own.output = take_output(next, heap, own.input == 0, u64(blockIdx.x) << 32 | round);
            if (own.output != ABSENT) own.address = frame_at(heap, own.output);
        }
    }
    const bool stuck = station && own.open && own.input != 0 && own.output == ABSENT && has_next(board.operators[lane]);
    if (__any_sync(ALL, stuck)) reclaim_for_stuck(board, args.topic_count, stuck);

    forget_told(args, board, own);
    const bool full = own.notes >= args.notes_in_flight;
    const bool ready = !full && station && own.open && own.input != 0 && (own.output != ABSENT || !has_next(board.operators[lane]));
    const u32 ready_mask = __ballot_sync(ALL, ready);
    // A block that has work leaves the delivery of its notes to idle blocks.
    if (ready_mask == 0 || __any_sync(ALL, full)) tell_left(args, board, own);
    const u32 open_mask = __ballot_sync(ALL, station && own.open);
    const bool any_leaves = __any_sync(ALL, leave);
    if (lane == 0) board.leave = any_leaves || open_mask == 0;
    if (any_leaves) return 0;
    looks.idle = ready_mask == 0 ? looks.idle + 1 : 0;
    if (ready_mask == 0) {
        rest(own, next_ticket);
        return 0;
    }

    u32 first = 0, count = 0;
    const u32 chosen = assign(board, operators, args.ready_only ? ready_mask : open_mask, first, count);
    board.vector[lane] = chosen != ABSENT && (ready_mask >> chosen & 1) ? chosen : ABSENT;
    if (ready) {
        Work& work = board.work[lane];
        const FlowOperator& of = board.operators[lane];
        work.bytes_in = frame_length(own.input);
        if (is_inline(topic)) {
            work.frame_in = reinterpret_cast<const u8*>(board.inputs[lane].words);
            work.origin = board.origin[lane];
        } else {
            work.frame_in = reinterpret_cast<const u8*>(frame_address(own.input));
            work.origin = slot_of(topic, own.ticket) + SLOT_SOURCE;
        }
        work.own_parameters = of.parameters;
        work.frame_out = nullptr;
        work.capacity = 0;
        if (has_next(of)) {
            const FlowTopic& next = board.topics[of.next];
            work.frame_out = reinterpret_cast<u8*>(is_inline(next) ? u64(board.outputs[lane].words) : own.address);
            work.capacity = next.frame_bytes;
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

// Runs until every operator has finished, or the host requests a stop. `Bodies` has begin(), called once by
// all threads, and compute(body, work), called by the threads of the warps that a round assigned to an
// operator.
template <typename Bodies> GALATEA_INLINE void run(const FlowArguments& args) {
    __shared__ FlowBoard board;
    copy_words(board.topics, args.topics, args.topic_count);
    copy_words(board.operators, args.operators, args.operator_count);
    copy_words(board.heaps, args.heaps, args.heap_count);
    if (threadIdx.x == 0) board.lent = 0;
    Bodies::begin();
    __syncthreads();

    const bool leads = threadIdx.x < 32;
    FlowStation own = {0, 0, 0, 0, ABSENT, 0, 0, false, false};
    InlineLooks looks = {0, 0, ABSENT, 0, 0};
    if (threadIdx.x < args.operator_count) {
        if (gridDim.x > 1) own.ticket = atomicAdd(board.operators[threadIdx.x].ticket, u64(1));
        own.open = true;
    }
    u64 beat = 0, heard = nanoseconds();
    u64 clocks[FLOW_STEPS] = {0, 0, 0, 0};
    u64 mark = clock64();
    // Attributes a lane's time to the step that has just ended.
    const auto spent = [&](u32 step) {
        const u64 now = clock64(), took = now - mark;
        clocks[step] += took;
        mark = now;
        return took;
    };
    bool content = true;
    u32 round = 0;
    while (true) {
        if (leads) {
            // The other warps wait at the barrier while no operator is ready.
            u32 ready = 0;
            for (bool again = true; again; ++round) {
                ready = look(args, board, own, content, round, looks, beat, heard);
                if (threadIdx.x == 0) spent(ready != 0 ? STEP_LOOK : STEP_IDLE);
                __syncwarp();
                again = ready == 0 && board.leave == 0;
                // All lanes read it before the next poll writes it.
                __syncwarp();
            }
            if (ready == 0) board.vector[threadIdx.x] = ABSENT;
        }
        __syncthreads();
        if (board.leave) break;
        const u32 op = board.vector[threadIdx.x / 32];
        if (op != ABSENT) {
            const u64 began = args.times != nullptr ? clock64() : 0;
            Bodies::compute(board.operators[op].body, board.work[op]);
            // If it ran with more warps than its share, because others had no frame, the time does not
            // measure that share.
            const bool has_share = board.work[op].warps == board.operators[op].warps;
            if (args.times != nullptr && board.work[op].thread() == 0 && has_share) {
                u64* times = args.times + blockIdx.x * (FLOW_STEPS + 2 * MOST_OPERATORS) + FLOW_STEPS;
                times[op * 2] += clock64() - began;
                times[op * 2 + 1] += board.work[op].bytes_in;
            }
        }
        __syncthreads();
        if (leads) {
            u64 took = 0;
            if (threadIdx.x == 0) took = spent(STEP_COMPUTE);
            if (__any_sync(0xffffffffu, took > LONG_ROUND)) {
                round = (round + ROUNDS_PER_BEAT - 1) / ROUNDS_PER_BEAT * ROUNDS_PER_BEAT;
            }
            // A body that failed ends the block; the host reads the report and stops the others.
            content = conclude_all(args, board, own);
            if (threadIdx.x == 0) spent(STEP_PUBLISH);
            // Orders the lanes' reads of the board before the writes of other lanes in the next poll: votes
            // and shuffles order no memory.
            __syncwarp();
        }
    }
    // All published frames are delivered before the block ends.
    if (leads) {
        while (__any_sync(0xffffffffu, own.notes != 0)) {
            forget_told(args, board, own);
            tell_left(args, board, own);
        }
        if (threadIdx.x < args.operator_count) drop_output(board, own, threadIdx.x);
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
