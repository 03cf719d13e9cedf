// Grid scope. Joins pairs of partitions: a block builds a hash table of the build side's partition in shared
// memory, and probes it with the other side's. A partition that exceeds the table is joined in several steps,
// each of which probes all tuples.
//
// With chains (`heads`): heads of chains (32 bits), links (16 bits), keys and values apart. Otherwise perfect
// hashing: the slot is the key without the bits that the partition has in common.
#include "galatea/args/radix_join.h"

using namespace galatea;

extern "C" __global__ void __launch_bounds__(1024, 1) radix_join(const __grid_constant__ RadixJoinArguments args) {
    GALATEA_DYNAMIC_SHARED(shared);
    constexpr u32 TOGETHER = 4;
    constexpr u32 END = 0xffff;
    constexpr u64 EMPTY = ~0ull;
    __shared__ u32 taken;
    u64* const keys = reinterpret_cast<u64*>(shared);
    u64* const values = keys + args.capacity;
    u32* const heads = reinterpret_cast<u32*>(values + args.capacity);
    u16* const links = reinterpret_cast<u16*>(heads + args.heads);
    const bool chained = args.heads != 0;
    const u32 head_mask = args.heads - 1;
    u64 sum = 0;
    u64 matches = 0;

    // Calls a function with rows [begin, end) and their numbers; a thread has several loads in flight.
    const auto each = [&](const u64* rows, u32 begin, u32 end, auto&& use) {
        for (u32 first = begin + threadIdx.x; first < end; first += TOGETHER * blockDim.x) {
            Tuple tuples[TOGETHER];
#pragma unroll
            for (u32 t = 0; t < TOGETHER; ++t) {
                const u32 at = first + t * blockDim.x;
                if (at < end) tuples[t] = load_vector<2>(rows, at);
            }
#pragma unroll
            for (u32 t = 0; t < TOGETHER; ++t) {
                const u32 at = first + t * blockDim.x;
                if (at < end) use(tuples[t], at);
            }
        }
    };

    while (true) {
        __syncthreads();
        if (threadIdx.x == 0) taken = atomicAdd(args.next, 1u);
        __syncthreads();
        const u32 part = taken;
        if (part >= args.parts) break;
        const u32 build_end = args.build_starts[part + 1];
        const u32 probe_begin = args.probe_starts[part];
        const u32 probe_end = args.probe_starts[part + 1];
        const u32 build_begin = args.build_starts[part];
        if (build_begin == build_end || probe_begin == probe_end) continue;
        if (chained) {
            for (u32 first = build_begin; first < build_end; first += args.capacity) {
                const u32 count = build_end - first < args.capacity ? build_end - first : args.capacity;
                __syncthreads();
                for (u32 head = threadIdx.x; head < args.heads; head += blockDim.x) heads[head] = END;
                __syncthreads();
                each(args.build, first, first + count, [&](const Tuple& tuple, u32 at) {
                    const u32 i = at - first;
                    keys[i] = tuple.item[0];
                    values[i] = tuple.item[1];
                    const u32 head = u32(radix_hash(tuple.item[0], args.raw) >> args.shift) & head_mask;
                    links[i] = u16(atomicExch(heads + head, i));
                });
                __syncthreads();
                each(args.probe, probe_begin, probe_end, [&](const Tuple& tuple, u32) {
                    u32 at = heads[u32(radix_hash(tuple.item[0], args.raw) >> args.shift) & head_mask];
                    while (at != END) {
                        if (keys[at] == tuple.item[0]) {
                            sum += values[at] + tuple.item[1];
                            ++matches;
                        }
                        at = links[at];
                    }
                });
            }
        } else {
            const u64 slots = (args.domain >> args.shift) + 1;
            for (u64 base = 0; base < slots; base += args.capacity) {
                __syncthreads();
                for (u32 i = threadIdx.x; i < args.capacity; i += blockDim.x) keys[i] = EMPTY;
                __syncthreads();
                each(args.build, build_begin, build_end, [&](const Tuple& tuple, u32) {
                    const u64 slot = (tuple.item[0] >> args.shift) - base;
                    if (slot < args.capacity) {
                        keys[slot] = tuple.item[0];
                        values[slot] = tuple.item[1];
                    }
                });
                __syncthreads();
                each(args.probe, probe_begin, probe_end, [&](const Tuple& tuple, u32) {
                    const u64 slot = (tuple.item[0] >> args.shift) - base;
                    if (slot < args.capacity && keys[slot] == tuple.item[0]) {
                        sum += values[slot] + tuple.item[1];
                        ++matches;
                    }
                });
            }
        }
    }
    sum = warp_reduce(sum, Sum{});
    matches = warp_reduce(matches, Sum{});
    if (lane() == 0 && matches != 0) {
        atomicAdd(args.sums, sum);
        atomicAdd(args.sums + 1, matches);
    }
}
