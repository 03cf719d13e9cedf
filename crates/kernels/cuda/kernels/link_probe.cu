// Grid scope. The probe of a no-partitioning hash join: looks up tuples, in host or device memory, in a hash
// table in device memory with linear probing, and sums the payloads of the matches. A thread has the loads of
// several tuples, and then of their first slots, in flight.
#include "galatea/args/link_probe.h"
#include "galatea/warp.cuh"

using namespace galatea;

extern "C" __global__ void link_probe(const LinkProbeArguments args) {
    constexpr u32 TOGETHER = 4;
    constexpr u64 EMPTY = 0;
    const u64 mask = args.slots - 1;
    u64 sum = 0;
    for (u64 first = grid_thread(); first < args.count; first += TOGETHER * grid_threads()) {
        Vector<u64, 2> tuples[TOGETHER];
        Vector<u64, 2> entries[TOGETHER];
#pragma unroll
        for (u32 t = 0; t < TOGETHER; ++t) {
            const u64 row = first + t * grid_threads();
            tuples[t] = {};
            if (row < args.count) tuples[t] = load_vector<2>(args.tuples, row);
        }
#pragma unroll
        for (u32 t = 0; t < TOGETHER; ++t) {
            entries[t] = {};
            if (tuples[t].item[0] != EMPTY) entries[t] = load_vector<2>(args.entries, mix64(tuples[t].item[0]) & mask);
        }
#pragma unroll
        for (u32 t = 0; t < TOGETHER; ++t) {
            const u64 key = tuples[t].item[0];
            if (key == EMPTY) continue;
            for (u64 slot = mix64(key); entries[t].item[0] != key && entries[t].item[0] != EMPTY;) {
                slot = (slot + 1) & mask;
                entries[t] = load_vector<2>(args.entries, slot);
            }
            if (entries[t].item[0] == key) sum += entries[t].item[1] + tuples[t].item[1];
        }
    }
    sum = warp_reduce(sum, Sum{});
    if (lane() == 0 && sum != 0) atomicAdd(args.sum, sum);
}
