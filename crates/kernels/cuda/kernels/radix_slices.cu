// Grid scope. Joins pairs of partitions whose tuples are slices of many pages, in device or host memory: a
// block builds a hash table in shared memory of all slices of the build side's partition, and probes it with
// those of the other side. Warps take slices. Blocks that load, over the link or not, work beside blocks that
// build or probe. Adjacent partitions are adjacent in each page, so all blocks read near each other.
//
// Tables are those of radix_join. If keys of the build side are distinct, the kernel may write a join index:
// the value of each tuple of the probe side that has a match, at the position that the tuple has among all
// probed tuples.
#include "galatea/args/radix_slices.h"

using namespace galatea;

extern "C" __global__ void __launch_bounds__(1024, 1)
    radix_slices(const __grid_constant__ RadixSlicesArguments args) {
    GALATEA_DYNAMIC_SHARED(shared);
    constexpr u32 TOGETHER = 4;
    constexpr u32 END = 0xffff;
    constexpr u64 EMPTY = ~0ull;
    __shared__ u32 taken;
    __shared__ u32 probed;  // 1: the probe side has tuples
    __shared__ u32 index_first;
    __shared__ Scratch<u32> scratch;
    u64* const keys = reinterpret_cast<u64*>(shared);
    u64* const values = keys + args.capacity;
    u32* const heads = reinterpret_cast<u32*>(values + args.capacity);
    // Slices: position in the page, number of tuples, and for the build side position in the partition.
    u32* const build_first = heads + args.heads;
    u32* const build_count = build_first + args.builds;
    u32* const build_before = build_count + args.builds;
    u32* const probe_first = build_before + args.builds;
    u32* const probe_count = probe_first + args.probes;
    // Only an index has a use for positions of the probe side: null without one.
    u32* const probe_before = args.index == nullptr ? nullptr : probe_count + args.probes;
    u16* const links = reinterpret_cast<u16*>(probe_count + (args.index == nullptr ? 1 : 2) * args.probes);
    const bool chained = args.heads != 0;
    const u32 head_mask = args.heads - 1;
    u64 sum = 0;
    u64 matches = 0;

    // Calls a function with all tuples of a partition and their positions in it. A warp has several loads in
    // flight.
    const auto each = [&](const u64* pages, u32 count, const u32* firsts, const u32* counts, const u32* before,
                          auto&& use) {
        for (u32 page = warp(); page < count; page += warps()) {
            const u64* const rows = reinterpret_cast<const u64*>(pages[page]) + 2 * u64(firsts[page]);
            const u32 of_page = counts[page];
            const u32 origin = before == nullptr ? 0 : before[page];
            for (u32 first = lane(); first < of_page; first += TOGETHER * WARP) {
                Tuple tuples[TOGETHER];
#pragma unroll
                for (u32 t = 0; t < TOGETHER; ++t) {
                    if (first + t * WARP < of_page) tuples[t] = load_vector<2>(rows, first + t * WARP);
                }
#pragma unroll
                for (u32 t = 0; t < TOGETHER; ++t) {
                    if (first + t * WARP < of_page) use(tuples[t], origin + first + t * WARP);
                }
            }
        }
    };
    const auto each_build = [&](auto&& use) {
        each(args.build_pages, args.builds, build_first, build_count, build_before, use);
    };
    const auto each_probe = [&](auto&& use) {
        each(args.probe_pages, args.probes, probe_first, probe_count, probe_before, use);
    };
    const auto match = [&](u64 build, u64 probe, u32 position) {
        sum += build + probe;
        ++matches;
        if (args.index != nullptr) args.index[u64(index_first) + position] = probe;
    };

    while (true) {
        __syncthreads();
        if (threadIdx.x == 0) {
            taken = atomicAdd(args.next, 1u);
            probed = 0;
        }
        __syncthreads();
        const u32 part = taken;
        if (part >= args.parts) break;
        u32 count = 0;
        if (threadIdx.x < args.builds) {
            const u32* const starts = args.build_starts + u64(threadIdx.x) * (args.parts + 1) + part;
            count = starts[1] - starts[0];
            build_first[threadIdx.x] = starts[0];
            build_count[threadIdx.x] = count;
        }
        if (threadIdx.x < args.probes) {
            const u32* const starts = args.probe_starts + u64(threadIdx.x) * (args.parts + 1) + part;
            probe_first[threadIdx.x] = starts[0];
            probe_count[threadIdx.x] = starts[1] - starts[0];
            if (starts[1] != starts[0]) probed = 1;
        }
        u32 total;
        const u32 before = block_exclusive_scan(count, Sum{}, total, scratch);
        if (threadIdx.x < args.builds) build_before[threadIdx.x] = before;
        __syncthreads();
        if (total == 0 || probed == 0) continue;
        if (args.index != nullptr) {
            // Elements for all tuples of the probe side. Each has at most one match.
            const u32 mine = threadIdx.x < args.probes ? probe_count[threadIdx.x] : 0;
            u32 all;
            const u32 earlier = block_exclusive_scan(mine, Sum{}, all, scratch);
            if (threadIdx.x < args.probes) probe_before[threadIdx.x] = earlier;
            if (threadIdx.x == 0) index_first = atomicAdd(args.indexed, all);
            __syncthreads();
        }
        if (chained) {
            for (u32 base = 0; base < total; base += args.capacity) {
                for (u32 head = threadIdx.x; head < args.heads; head += blockDim.x) heads[head] = END;
                __syncthreads();
                each_build([&](const Tuple& tuple, u32 position) {
                    const u32 i = position - base;
                    if (i >= args.capacity) return;
                    keys[i] = tuple.item[0];
                    values[i] = tuple.item[1];
                    const u32 head = u32(radix_hash(tuple.item[0], args.raw) >> args.shift) & head_mask;
                    links[i] = u16(atomicExch(heads + head, i));
                });
                __syncthreads();
                each_probe([&](const Tuple& tuple, u32 position) {
                    u32 at = heads[u32(radix_hash(tuple.item[0], args.raw) >> args.shift) & head_mask];
                    while (at != END) {
                        if (keys[at] == tuple.item[0]) match(values[at], tuple.item[1], position);
                        at = links[at];
                    }
                });
                __syncthreads();
            }
        } else {
            const u64 slots = (args.domain >> args.shift) + 1;
            for (u64 base = 0; base < slots; base += args.capacity) {
                for (u32 i = threadIdx.x; i < args.capacity; i += blockDim.x) keys[i] = EMPTY;
                __syncthreads();
                each_build([&](const Tuple& tuple, u32) {
                    const u64 slot = (tuple.item[0] >> args.shift) - base;
                    if (slot >= args.capacity) return;
                    keys[slot] = tuple.item[0];
                    values[slot] = tuple.item[1];
                });
                __syncthreads();
                each_probe([&](const Tuple& tuple, u32 position) {
                    const u64 slot = (tuple.item[0] >> args.shift) - base;
                    if (slot < args.capacity && keys[slot] == tuple.item[0]) {
                        match(values[slot], tuple.item[1], position);
                    }
                });
                __syncthreads();
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
