// Kernels of the experiments on bank and value conflicts: the operators of the paper, their cost by degree of
// conflict, and the methods of summing by group that need no laid-out column.
//
// A block processes `morsel_rows` consecutive rows. In a step each thread processes one row, so a warp
// accesses 32 consecutive rows (galatea_layout::Tiles::paper). The host defines STEPS; the rows of STEPS
// steps are loaded before the first is used. 64-bit sums in shared memory are two planes of 32-bit halves, so
// that slot i of either plane is in bank i mod 32.
#include "galatea/block.cuh"

using namespace galatea;

struct Arguments {
    const u32* codes;      // value of each row, or its slot in a laid-out column
    const u64* measures;   // value to sum, of each row
    const u32* table;      // for each slot: its value (HOLE for none), or the payload of a join
    u64* scratch;          // in device memory: `copies` of `stride` words
    u64* result;           // for each value its count or sum; for a join, one sum
    u64 rows;
    u64 morsel_rows;
    u64 slots;             // entries of `table`; number of values, if there is no table
    u64 copies;            // copies, a power of two
    u64 stride;            // words from a group to the next in shared memory, from a copy to the next in device memory
};

constexpr u32 HOLE = 0xffffffffu;
constexpr u32 ALL_LANES = 0xffffffffu;

// Block scope. Calls `update(code, measure, lanes)` for every row of this block's morsel. `lanes` are the
// lanes of the warp with a row; they call together.
template <bool MEASURED, typename Update> GALATEA_INLINE void walk(const Arguments& args, Update update) {
    const u64 first = blockIdx.x * args.morsel_rows;
    if (first >= args.rows) return;
    const u32 rows = u32(args.rows - first < args.morsel_rows ? args.rows - first : args.morsel_rows);
    const u32* const codes = args.codes + first;
    const u64* const measures = MEASURED ? args.measures + first : nullptr;
    for (u32 step = 0; step < rows; step += STEPS * blockDim.x) {
        u32 code[STEPS];
        u64 measure[STEPS];
#pragma unroll
        for (u32 i = 0; i < STEPS; ++i) {
            const u32 row = step + i * blockDim.x + threadIdx.x;
            code[i] = row < rows ? __ldg(codes + row) : 0;
            measure[i] = MEASURED && row < rows ? __ldg(measures + row) : 0;
        }
#pragma unroll
        for (u32 i = 0; i < STEPS; ++i) {
            const u32 row = step + i * blockDim.x + threadIdx.x;
            const u32 left = rows - (row - lane());
            if (row < rows) update(code[i], measure[i], left < WARP ? first_lanes(left) : ALL_LANES);
        }
    }
}

// Block scope. Barriers: 1.
GALATEA_INLINE void clear(u32* words, u32 count) {
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) words[i] = 0;
    __syncthreads();
}

// Thread scope. Native 32-bit atomics. The carry follows from the previous value of the low half. The high
// half is updated only if it changes.
GALATEA_INLINE void add_split(u32* low, u32* high, u64 value) {
    const u32 before = atomicAdd(low, u32(value));
    const u32 up = u32(value >> 32) + (before + u32(value) < before ? 1u : 0u);
    if (up != 0) atomicAdd(high, up);
}

GALATEA_INLINE u64 joined(u32 low, u32 high) { return u64(high) << 32 | low; }

// Block scope, after a barrier: adds `total(i)` of i < count to the result of `value(i)`.
template <typename Value, typename Total> GALATEA_INLINE void merge(const Arguments& args, u32 count, Value value, Total total) {
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) {
        const u32 to = value(i);
        const u64 part = to == HOLE ? 0 : total(i);
        if (part != 0) atomicAdd(args.result + to, part);
    }
}

// Q1: SELECT SUM(D.B) FROM F, D WHERE F.A = D.A. The payload of the build side is in shared memory.
extern "C" __global__ void __launch_bounds__(1024) join_sum(const Arguments args) {
    __shared__ Scratch<u64> scratch;
    GALATEA_DYNAMIC_SHARED(bytes);
    u32* const payload = reinterpret_cast<u32*>(bytes);
    for (u32 i = threadIdx.x; i < args.slots; i += blockDim.x) payload[i] = __ldg(args.table + i);
    __syncthreads();
    u64 sum = 0;
    walk<false>(args, [&](u32 slot, u64, u32) { sum += payload[slot]; });
    sum = block_reduce(sum, Sum{}, scratch);
    if (threadIdx.x == 0) atomicAdd(args.result, sum);
}

// Q2: SELECT A, COUNT(*) FROM F GROUP BY A. Counts are in shared memory, one per slot. Each block adds them
// up by value.
extern "C" __global__ void __launch_bounds__(1024) group_count(const Arguments args) {
    GALATEA_DYNAMIC_SHARED(bytes);
    u32* const counts = reinterpret_cast<u32*>(bytes);
    clear(counts, args.slots);
    walk<false>(args, [&](u32 slot, u64, u32) { atomicAdd(counts + slot, 1u); });
    __syncthreads();
    merge(args, args.slots, [&](u32 slot) { return __ldg(args.table + slot); }, [&](u32 slot) { return u64(counts[slot]); });
}

// Q2 with SUM of a 64-bit measure. Over the original column, this is the method with one copy.
extern "C" __global__ void __launch_bounds__(1024) group_sum(const Arguments args) {
    GALATEA_DYNAMIC_SHARED(bytes);
    u32* const low = reinterpret_cast<u32*>(bytes);
    u32* const high = low + args.slots;
    clear(low, 2 * args.slots);
    walk<true>(args, [&](u32 slot, u64 measure, u32) { add_split(low + slot, high + slot, measure); });
    __syncthreads();
    merge(args, args.slots, [&](u32 slot) { return __ldg(args.table + slot); },
          [&](u32 slot) { return joined(low[slot], high[slot]); });
}

// One 64-bit atomic per row: a loop of compare-and-swap.
extern "C" __global__ void __launch_bounds__(1024) sum_naive(const Arguments args) {
    GALATEA_DYNAMIC_SHARED(bytes);
    u64* const sums = reinterpret_cast<u64*>(bytes);
    clear(reinterpret_cast<u32*>(bytes), 2 * args.slots);
    walk<true>(args, [&](u32 group, u64 measure, u32) { atomicAdd(sums + group, measure); });
    __syncthreads();
    merge(args, args.slots, [](u32 group) { return group; }, [&](u32 group) { return sums[group]; });
}

// Lane l adds to copy l mod `copies` of its group.
extern "C" __global__ void __launch_bounds__(1024) sum_replicated(const Arguments args) {
    GALATEA_DYNAMIC_SHARED(bytes);
    const u32 words = u32(args.slots * args.stride);
    const u32 stride = u32(args.stride), copies = u32(args.copies);
    u32* const low = reinterpret_cast<u32*>(bytes);
    u32* const high = low + words;
    clear(low, 2 * words);
    u32* const own = low + (lane() & (copies - 1));
    walk<true>(args, [&](u32 group, u64 measure, u32) {
        u32* const word = own + group * stride;
        add_split(word, word + words, measure);
    });
    __syncthreads();
    merge(args, args.slots, [](u32 group) { return group; }, [&](u32 group) {
        u64 total = 0;
        for (u32 copy = 0; copy < copies; ++copy) {
            const u32 at = group * stride + copy;
            total += joined(low[at], high[at]);
        }
        return total;
    });
}

// Every thread has a sum per group, [group][thread]; no atomics. One warp merges each group.
extern "C" __global__ void __launch_bounds__(1024) sum_per_thread(const Arguments args) {
    GALATEA_DYNAMIC_SHARED(bytes);
    u64* const sums = reinterpret_cast<u64*>(bytes);
    clear(reinterpret_cast<u32*>(bytes), 2 * u32(args.slots) * blockDim.x);
    u64* const own = sums + threadIdx.x;
    walk<true>(args, [&](u32 group, u64 measure, u32) { own[group * blockDim.x] += measure; });
    __syncthreads();
    for (u32 group = warp(); group < args.slots; group += warps()) {
        u64 total = 0;
        for (u32 i = lane(); i < blockDim.x; i += WARP) total += sums[group * blockDim.x + i];
        total = warp_reduce(total, Sum{});
        if (lane() == 0 && total != 0) atomicAdd(args.result + group, total);
    }
}

// Warp scope, exactly these lanes. Sums `value` over the lanes of `peers`, which include this one. The result
// is valid on the first of them. A tree over the ranks of the peers: the number of steps is log2 of the
// largest set of peers, rounded up; 0 if all lanes differ.
GALATEA_INLINE u64 reduce_peers(u32 lanes, u32 peers, u64 value) {
    u32 rank = __popc(peers & lanes_before());
    u32 after = peers & ~lanes_before() & ~(1u << lane());
    while (__any_sync(lanes, after != 0)) {
        const u32 next = after != 0 ? __ffs(after) - 1 : lane();
        const u64 other = __shfl_sync(lanes, value, next);
        if (after != 0) value += other;
        // A lane of odd rank has been added to the one before it. The others halve their ranks.
        after &= ~__ballot_sync(lanes, rank & 1);
        if (rank & 1) after = 0;
        rank >>= 1;
    }
    return value;
}

// Lanes of the same group combine their rows. The first of them adds the sum to the block's one copy.
extern "C" __global__ void __launch_bounds__(1024) sum_warp_aggregated(const Arguments args) {
    GALATEA_DYNAMIC_SHARED(bytes);
    u32* const low = reinterpret_cast<u32*>(bytes);
    u32* const high = low + args.slots;
    clear(low, 2 * args.slots);
    walk<true>(args, [&](u32 group, u64 measure, u32 lanes) {
        const u32 peers = __match_any_sync(lanes, group);
        const u64 total = reduce_peers(lanes, peers, measure);
        if ((peers & lanes_before()) == 0) add_split(low + group, high + group, total);
    });
    __syncthreads();
    merge(args, args.slots, [](u32 group) { return group; }, [&](u32 group) { return joined(low[group], high[group]); });
}

// Every thread has the sums of all groups in registers, and compares every row with every group.
template <u32 GROUPS> GALATEA_INLINE void sum_registers(const Arguments& args) {
    __shared__ Scratch<u64> scratch;
    u64 sums[GROUPS];
#pragma unroll
    for (u32 i = 0; i < GROUPS; ++i) sums[i] = 0;
    walk<true>(args, [&](u32 group, u64 measure, u32) {
#pragma unroll
        for (u32 i = 0; i < GROUPS; ++i) sums[i] += group == i ? measure : 0;
    });
#pragma unroll
    for (u32 i = 0; i < GROUPS; ++i) {
        const u64 total = block_reduce(sums[i], Sum{}, scratch);
        if (threadIdx.x == 0 && total != 0) atomicAdd(args.result + i, total);
    }
}
extern "C" __global__ void __launch_bounds__(1024) sum_registers_1(const Arguments args) { sum_registers<1>(args); }
extern "C" __global__ void __launch_bounds__(1024) sum_registers_2(const Arguments args) { sum_registers<2>(args); }
extern "C" __global__ void __launch_bounds__(1024) sum_registers_4(const Arguments args) { sum_registers<4>(args); }
extern "C" __global__ void __launch_bounds__(1024) sum_registers_8(const Arguments args) { sum_registers<8>(args); }

// Atomics in device memory, on the copy of the warp.
extern "C" __global__ void __launch_bounds__(1024) sum_global(const Arguments args) {
    const u32 copy = (blockIdx.x * warps() + warp()) & u32(args.copies - 1);
    u64* const sums = args.scratch + copy * args.stride;
    walk<true>(args, [&](u32 group, u64 measure, u32) { atomicAdd(sums + group, measure); });
}

// Adds up the copies.
extern "C" __global__ void merge_replicas(const Arguments args) {
    for (u64 group = grid_thread(); group < args.slots; group += grid_threads()) {
        u64 total = 0;
        for (u64 copy = 0; copy < args.copies; ++copy) total += args.scratch[copy * args.stride + group];
        args.result[group] = total;
    }
}

// The ceilings: only reads one column, or both.
template <bool MEASURED> GALATEA_INLINE void read_columns(const Arguments& args) {
    __shared__ Scratch<u64> scratch;
    u64 sum = 0;
    walk<MEASURED>(args, [&](u32 code, u64 measure, u32) { sum += code + measure; });
    sum = block_reduce(sum, Sum{}, scratch);
    if (threadIdx.x == 0) atomicAdd(args.result, sum);
}
extern "C" __global__ void __launch_bounds__(1024) read_codes(const Arguments args) { read_columns<false>(args); }
extern "C" __global__ void __launch_bounds__(1024) read_both(const Arguments args) { read_columns<true>(args); }
