// Block scope: writes the rows of a step to device memory, partition by partition (Lutz 2022, §4.3: the
// linear allocator with software write combining). The rows of each partition are counted in shared memory,
// so each row has a position among the rows of the step. One atomic per partition reserves consecutive
// positions in device memory, and adjacent threads write adjacent rows.
#pragma once

#include "galatea/block.cuh"

namespace galatea {

// State of a step of a block, in shared memory.
template <u32 PARTS> struct PartitionStep {
    static_assert(PARTS > 1 && PARTS <= 256 && (PARTS & (PARTS - 1)) == 0, "a partition's number has at most 8 bits");
    u32 rows[PARTS];   // number of rows of the step in each partition
    u32 first[PARTS];  // position of the partition's first row among the rows of the step
    u64 shift[PARTS];  // position in device memory minus position in the step, modulo 2^64
    Scratch<u32> scratch;
};

// Before the first step. Barriers: 1.
template <u32 PARTS> GALATEA_INLINE void partition_begin(PartitionStep<PARTS>& step) {
    for (u32 part = threadIdx.x; part < PARTS; part += blockDim.x) step.rows[part] = 0;
    __syncthreads();
}

// Thread scope. Counts a row of partition `part`. Returns `part << 16 | rank`: the rank is the number of rows
// of the partition that were counted before in this step.
template <u32 PARTS> GALATEA_INLINE u32 partition_take(PartitionStep<PARTS>& step, u32 part) {
    return part << 16 | atomicAdd(&step.rows[part], 1u);
}

// Thread scope, after `partition_reserve`. The position among the rows of the step for `taken`, the result of
// `partition_take`.
template <u32 PARTS> GALATEA_INLINE u32 partition_place(const PartitionStep<PARTS>& step, u32 taken) {
    return step.first[taken >> 16] + (taken & 0xffffu);
}

// Called after all rows of a step are counted: reserves their positions. `cursors` holds the next free
// position of each partition. Returns the number of rows of the step; counts are reset to 0. Barriers: 5.
template <u32 PARTS, u32 BLOCK>
GALATEA_INLINE u32 partition_reserve(PartitionStep<PARTS>& step, u64* cursors) {
    constexpr u32 EACH = PARTS > BLOCK ? PARTS / BLOCK : 1;
    __syncthreads();
    const u32 begin = threadIdx.x * EACH;
    const u32 end = begin + EACH <= PARTS ? begin + EACH : begin;
    u32 mine = 0;
    for (u32 part = begin; part < end; ++part) mine += step.rows[part];
    u32 total;
    u32 before = block_exclusive_scan(mine, Sum{}, total, step.scratch);
    for (u32 part = begin; part < end; ++part) {
        const u32 rows = step.rows[part];
        step.rows[part] = 0;
        step.first[part] = before;
        if (rows != 0) {
            step.shift[part] = atomicAdd(reinterpret_cast<unsigned long long*>(cursors + part), u64(rows)) - before;
        }
        before += rows;
    }
    __syncthreads();
    return total;
}

}  // namespace galatea
