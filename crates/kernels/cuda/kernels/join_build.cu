// Grid scope. The build of a no-partitioning hash join: stores rows of two columns, in host or device memory,
// in a hash table in any memory. A thread has the loads of several rows in flight, and with perfect hashing
// also their stores.
#include "galatea/args/join_build.h"
#include "galatea/join_table.cuh"

using namespace galatea;

template <typename Word, bool PERFECT> GALATEA_INLINE void build(const JoinBuildArguments& args) {
    constexpr u32 TOGETHER = 8;
    using Table = JoinTable<Word>;
    const Word* const keys = static_cast<const Word*>(args.keys);
    const Word* const payloads = static_cast<const Word*>(args.payloads);
    Word* const entries = static_cast<Word*>(args.entries);
    const u64 threads = grid_threads();
    for (u64 first = grid_thread(); first < args.rows; first += TOGETHER * threads) {
        Word key[TOGETHER];
        Word payload[TOGETHER];
#pragma unroll
        for (u32 t = 0; t < TOGETHER; ++t) {
            const u64 row = first + t * threads;
            key[t] = Table::EMPTY;
            payload[t] = 0;
            if (row < args.rows) {
                key[t] = keys[row];
                payload[t] = payloads[row];
            }
        }
#pragma unroll
        for (u32 t = 0; t < TOGETHER; ++t) {
            if (key[t] == Table::EMPTY) continue;
            if constexpr (PERFECT) {
                Table::store(entries, args.slots, key[t], payload[t]);
            } else {
                Table::insert(entries, args.slot_bits, key[t], payload[t]);
            }
        }
    }
}

extern "C" __global__ void join_build(const JoinBuildArguments args) {
    if (args.word_bytes == 8) {
        args.slot_bits == 0 ? build<u64, true>(args) : build<u64, false>(args);
    } else {
        args.slot_bits == 0 ? build<u32, true>(args) : build<u32, false>(args);
    }
}
