// Block scope. Partitioning with a buffer per partition in shared memory (Lutz 2022, 4.3.2, "Shared"), and a
// second one in device memory (4.3.3, "Hierarchical"). All warps of the block fill the same buffers, and a
// full buffer is written whole, in aligned lines.
//
// The block works in rounds. A lane reserves a slot of the buffer of its tuple's partition by an atomic
// increment, and stores its tuple if the slot exists. The lane that receives the last slot lists the buffer.
// After a barrier all threads write the listed buffers, adjacent threads adjacent tuples. Tuples without a
// slot wait for the next round.
//
//   slots ── reserved (may exceed the size until the barrier) ── listed if full ── written by all threads
//
// In the thesis, the lane that finds a full buffer locks it, and its warp writes it alone, while other warps
// that need the buffer wait. Up to 31 warps waited at the same time, so this took 10 to 300 times as long as
// tiles (linear.cuh) in device memory.
//
// If a few partitions have most of the tuples, a round places few. After some rounds a tuple is stored at its
// position in the output instead; its buffer is empty then. Second-level buffers do not allow that.
//
// The first buffer of a partition begins at the line of its first position: as many slots as the line has
// positions before it are skipped, and not written.
#pragma once

#include "galatea/args/radix_scatter.h"

namespace galatea {

// Rounds with buffers before tuples of a batch are stored one by one.
constexpr u32 BUFFER_ROUNDS = 12;

// Full buffers: their partitions and first positions.
struct RadixList {
    u32* parts;
    u32* bases;
};

// Buffers of a block: arrays in shared memory with an element for each partition.
struct RadixBuffers {
    u64* tuples;
    u32* slots;
    u32* next;  // position of the first tuple that is not yet written to the output
    RadixList full;
    // Hierarchical: tuples in the second-level buffer, and those that are full.
    u32* second_filled;
    RadixList second_full;

    GALATEA_INLINE RadixBuffers(unsigned char* shared, u32 parts, u32 size) {
        tuples = reinterpret_cast<u64*>(shared);
        slots = reinterpret_cast<u32*>(tuples + 2 * u64(parts) * size);
        next = slots + parts;
        full = {next + parts, next + 2 * parts};
        second_filled = next + 3 * parts;
        second_full = {next + 4 * parts, next + 5 * parts};
    }
};

// Writes tuples [0, count) of an array to the output from `window` on, without those before `from`. Called by
// all lanes of a warp.
GALATEA_INLINE void radix_write(const RadixOutput& output, const u64* tuples, u32 window, u32 from, u32 count) {
    for (u32 i = lane(); i < count; i += WARP) {
        if (window + i >= from) radix_store(output, window + i, load_vector<2>(tuples, i));
    }
}

// Writes `count` listed buffers of `size` tuples each to the output. Called by all threads.
GALATEA_INLINE void radix_write_listed(const RadixOutput& output, const u64* tuples, const RadixList& list, u32 count,
                                       u32 size, u32 aligned) {
    for (u32 i = threadIdx.x; i < count * size; i += blockDim.x) {
        const u32 which = i / size;
        const u32 slot = i - which * size;
        const u32 base = list.bases[which];
        const u32 at = base - base % aligned + slot;
        if (at >= base) radix_store(output, at, load_vector<2>(tuples, u64(list.parts[which]) * size + slot));
    }
}

template <bool HIERARCHICAL, u32 PAIRS>
GALATEA_INLINE void radix_buffered(const RadixScatterArguments& args, const RadixInput& input,
                                   const RadixOutput& output, u64 begin, unsigned char* shared) {
    using Batch = RadixBatch<PAIRS>;
    constexpr u32 LINE = 8;  // tuples of 128 bytes
    // Numbers of listed buffers of two rounds: one is reset while the other is in use.
    __shared__ u32 listed[2];
    __shared__ u32 seconds_listed[2];
    const u32 parts = 1u << args.bits;
    const u32 size = args.buffer;
    const u32 aligned = size < LINE ? size : LINE;
    const RadixBuffers buffers(shared, parts, size);
    u64* const seconds = args.second + u64(blockIdx.x) * parts * SECOND_TUPLES * 2;
    for (u32 part = threadIdx.x; part < parts; part += blockDim.x) {
        const u32 start = args.offsets[u64(blockIdx.x) * parts + part];
        buffers.next[part] = start;
        buffers.slots[part] = start % aligned;
        if (HIERARCHICAL) buffers.second_filled[part] = start % LINE - start % aligned;
    }
    if (threadIdx.x < 2) listed[threadIdx.x] = seconds_listed[threadIdx.x] = 0;
    __syncthreads();

    const u32 tuples_of_block = warps() * Batch::WARP_TUPLES;
    u32 turn = 0;
    Batch batch;
    radix_load(batch, input, begin + warp() * Batch::WARP_TUPLES);
    for (u64 first = begin; first < input.end; first += tuples_of_block) {
        bool more = true;
        for (u32 round = 0; more; ++round, turn ^= 1) {
#pragma unroll
            for (u32 t = 0; t < Batch::EACH; ++t) {
                if ((batch.valid >> t & 1) == 0) continue;
                const u32 part = radix_part(batch.tuple[t].item[0], args.raw, args.shift, args.bits);
                const u32 slot = atomicAdd(buffers.slots + part, 1u);
                if (slot >= size) continue;
                store_vector(buffers.tuples, u64(part) * size + slot, batch.tuple[t]);
                batch.valid &= ~(1u << t);
                if (slot == size - 1) buffers.full.parts[atomicAdd(listed + turn, 1u)] = part;
            }
            more = __syncthreads_or(batch.valid != 0) != 0;
            const u32 count = listed[turn];
            // All have read the other round's numbers.
            if (threadIdx.x == 0) listed[turn ^ 1] = seconds_listed[turn ^ 1] = 0;
            for (u32 i = threadIdx.x; i < count; i += blockDim.x) {
                const u32 part = buffers.full.parts[i];
                const u32 next = buffers.next[part];
                buffers.slots[part] = 0;
                if (HIERARCHICAL) {
                    const u32 filled = buffers.second_filled[part];
                    buffers.full.bases[i] = filled;
                    buffers.second_filled[part] = filled + size;
                    if (filled + size < SECOND_TUPLES) continue;
                    const u32 at = atomicAdd(seconds_listed + turn, 1u);
                    buffers.second_full.parts[at] = part;
                    buffers.second_full.bases[at] = next;
                    buffers.second_filled[part] = 0;
                    buffers.next[part] = next - next % LINE + SECOND_TUPLES;
                } else {
                    buffers.full.bases[i] = next;
                    buffers.next[part] = next - next % aligned + size;
                }
            }
            // The next tuples are loaded while these are written.
            if (!more) radix_load(batch, input, first + tuples_of_block + warp() * Batch::WARP_TUPLES);
            __syncthreads();
            if (HIERARCHICAL) {
                for (u32 i = threadIdx.x; i < count * size; i += blockDim.x) {
                    const u32 which = i / size;
                    const u32 slot = i - which * size;
                    const u32 part = buffers.full.parts[which];
                    const Tuple tuple = load_vector<2>(buffers.tuples, u64(part) * size + slot);
                    store_vector(seconds, u64(part) * SECOND_TUPLES + buffers.full.bases[which] + slot, tuple);
                }
                __syncthreads();
                radix_write_listed(output, seconds, buffers.second_full, seconds_listed[turn], SECOND_TUPLES, LINE);
            } else {
                radix_write_listed(output, buffers.tuples, buffers.full, count, size, aligned);
            }
            __syncthreads();
            if (HIERARCHICAL || !more || round + 1 < BUFFER_ROUNDS) continue;
            // Buffers of the remaining tuples were full, so they are empty now.
#pragma unroll
            for (u32 t = 0; t < Batch::EACH; ++t) {
                if ((batch.valid >> t & 1) == 0) continue;
                const u32 part = radix_part(batch.tuple[t].item[0], args.raw, args.shift, args.bits);
                radix_store(output, atomicAdd(buffers.next + part, 1u), batch.tuple[t]);
            }
            __syncthreads();
            // The buffer begins again at the line of its first position.
#pragma unroll
            for (u32 t = 0; t < Batch::EACH; ++t) {
                if ((batch.valid >> t & 1) == 0) continue;
                const u32 part = radix_part(batch.tuple[t].item[0], args.raw, args.shift, args.bits);
                atomicExch(buffers.slots + part, buffers.next[part] % aligned);
            }
            radix_load(batch, input, first + tuples_of_block + warp() * Batch::WARP_TUPLES);
            __syncthreads();
            more = false;
        }
    }
    for (u32 part = warp(); part < parts; part += warps()) {
        const u32 base = buffers.next[part];
        u32 window = base - base % (HIERARCHICAL ? LINE : aligned);
        if (HIERARCHICAL) {
            const u32 count = buffers.second_filled[part];
            radix_write(output, seconds + u64(part) * SECOND_TUPLES * 2, window, base, count);
            window += count;
        }
        radix_write(output, buffers.tuples + 2 * u64(part) * size, window, base, buffers.slots[part]);
    }
}

}  // namespace galatea
