// Grid scope. The probe of a no-partitioning hash join: looks up rows of two columns, in host or device
// memory, in a hash table in any memory, and sums the payloads of both sides of the matches. A thread has the
// loads of several keys, then of their first slots, then of the matching rows' payloads in flight.
#include "galatea/args/join_probe.h"
#include "galatea/join_table.cuh"
#include "galatea/warp.cuh"

using namespace galatea;

template <typename Word, bool PERFECT> GALATEA_INLINE void probe(const JoinProbeArguments& args) {
    constexpr u32 TOGETHER = 8;
    using Table = JoinTable<Word>;
    const Word* const keys = static_cast<const Word*>(args.keys);
    const Word* const payloads = static_cast<const Word*>(args.payloads);
    const Word* const entries = static_cast<const Word*>(args.entries);
    const u64 threads = grid_threads();
    const u64 mask = (u64(1) << args.slot_bits) - 1;
    u64 sum = 0;
    u64 matches = 0;
    for (u64 first = grid_thread(); first < args.rows; first += TOGETHER * threads) {
        Word key[TOGETHER];
        Vector<Word, 2> entry[TOGETHER];
        Word payload[TOGETHER];
#pragma unroll
        for (u32 t = 0; t < TOGETHER; ++t) {
            const u64 row = first + t * threads;
            key[t] = Table::EMPTY;
            if (row < args.rows) key[t] = keys[row];
        }
#pragma unroll
        for (u32 t = 0; t < TOGETHER; ++t) {
            const u64 slot = PERFECT ? u64(key[t]) : JoinHash<Word>::slot(key[t], args.slot_bits);
            entry[t] = {{Table::EMPTY, 0}};
            if (key[t] != Table::EMPTY && slot < args.slots) entry[t] = load_vector<2>(entries, slot);
        }
        if constexpr (!PERFECT) {
#pragma unroll
            for (u32 t = 0; t < TOGETHER; ++t) {
                if (key[t] == Table::EMPTY) continue;
                u64 slot = JoinHash<Word>::slot(key[t], args.slot_bits);
                while (entry[t].item[0] != key[t] && entry[t].item[0] != Table::EMPTY) {
                    slot = (slot + 1) & mask;
                    entry[t] = load_vector<2>(entries, slot);
                }
            }
        }
#pragma unroll
        for (u32 t = 0; t < TOGETHER; ++t) {
            const bool found = key[t] != Table::EMPTY && entry[t].item[0] == key[t];
            payload[t] = 0;
            if (found) payload[t] = payloads[first + t * threads];
            if (!found) entry[t].item[1] = 0;
            matches += found;
        }
#pragma unroll
        for (u32 t = 0; t < TOGETHER; ++t) sum += u64(entry[t].item[1]) + payload[t];
    }
    sum = warp_reduce(sum, Sum{});
    matches = warp_reduce(matches, Sum{});
    if (lane() == 0 && matches != 0) {
        atomicAdd(args.sum, sum);
        atomicAdd(args.sum + 1, matches);
    }
}

extern "C" __global__ void join_probe(const JoinProbeArguments args) {
    if (args.word_bytes == 8) {
        args.slot_bits == 0 ? probe<u64, true>(args) : probe<u64, false>(args);
    } else {
        args.slot_bits == 0 ? probe<u32, true>(args) : probe<u32, false>(args);
    }
}
