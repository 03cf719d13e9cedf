// Block scope. Partitioning with a buffer per partition in shared memory (Lutz 2022, 4.3.2, "Shared"), and a
// second one in device memory (4.3.3, "Hierarchical"). All warps of the block fill the same buffers, and a
// full buffer is written whole, in aligned lines.
//
// A lane reserves a slot of the buffer of its tuple's partition by an atomic increment. Slots below the
// buffer's size are its own: it stores its tuple, and then counts it as filled. The lane that receives
// exactly the size owns the buffer: it waits until all slots are filled, its warp writes the buffer, and it
// empties the buffer. Lanes that receive more try again.
//
//   slots ── reserved (may exceed the size while a buffer is full) ── filled ── written by the owner's warp
//
// Differences from the listings of the thesis, which do not work as printed: the loop ends when no lane has a
// tuple left; slots and counts are reset by atomic exchanges, after a fence; all owners of a warp write their
// buffers at the same time, instead of one that writes and others that return the lock; an owner stores its
// own tuple before it unlocks the buffer.
//
// The first buffer of a partition begins at the line of its first position: as many slots as the line has
// positions before it are skipped, and not written.
#pragma once

#include "galatea/args/radix_scatter.h"

namespace galatea {

// Buffers of a block: arrays in shared memory with an element for each partition.
struct RadixBuffers {
    u64* tuples;
    u32* slots;
    u32* filled;
    u32* next;  // position of the first tuple that is not yet written to the output
    // Hierarchical: number of the second-level buffer, and of tuples in it.
    u32* second;
    u32* second_filled;

    GALATEA_INLINE RadixBuffers(unsigned char* shared, u32 parts, u32 size) {
        tuples = reinterpret_cast<u64*>(shared);
        slots = reinterpret_cast<u32*>(tuples + 2 * u64(parts) * size);
        filled = slots + parts;
        next = filled + parts;
        second = next + parts;
        second_filled = second + parts;
    }
};

// Writes tuples [0, count) of an array to the output from `window` on, without those before `from`. Called by
// `lanes` lanes, of which this is number `lane`.
GALATEA_INLINE void radix_write(const RadixOutput& output, const u64* tuples, u32 window, u32 from, u32 count,
                                u32 lane, u32 lanes) {
    for (u32 i = lane; i < count; i += lanes) {
        if (window + i >= from) radix_store(output, window + i, load_vector<2>(tuples, i));
    }
}

template <bool HIERARCHICAL>
GALATEA_INLINE void radix_buffered(const RadixScatterArguments& args, const RadixInput& input,
                                   const RadixOutput& output, u64 begin, unsigned char* shared) {
    using Batch = RadixBatch<2>;
    constexpr u32 LINE = 8;  // tuples of 128 bytes
    const u32 parts = 1u << args.bits;
    const u32 size = args.buffer;
    const u32 aligned = size < LINE ? size : LINE;
    RadixBuffers buffers(shared, parts, size);
    // The second-level buffers of this block: one for each partition, and a spare one for each warp.
    u64* const seconds = args.second + u64(blockIdx.x) * (parts + warps()) * SECOND_TUPLES * 2;
    u32 spare = parts + warp();
    for (u32 part = threadIdx.x; part < parts; part += blockDim.x) {
        const u32 start = args.offsets[u64(blockIdx.x) * parts + part];
        buffers.next[part] = start;
        buffers.slots[part] = buffers.filled[part] = start % aligned;
        if (HIERARCHICAL) {
            buffers.second[part] = part;
            buffers.second_filled[part] = start % LINE - start % aligned;
        }
    }
    __syncthreads();

    // Lanes that write a buffer together.
    const u32 team = size < WARP ? (size > 16 ? WARP : size) : WARP;
    for (u64 first = begin + warp() * Batch::WARP_TUPLES; first < input.end; first += warps() * Batch::WARP_TUPLES) {
        Batch batch;
        radix_load(batch, input, first);
#pragma unroll
        for (u32 t = 0; t < Batch::EACH; ++t) {
            const Tuple tuple = batch.tuple[t];
            const u32 part = radix_part(tuple.item[0], args.raw, args.shift, args.bits);
            bool pending = batch.valid >> t & 1;
            while (__any_sync(ALL_LANES, pending)) {
                bool owner = false;
                if (pending) {
                    const u32 slot = atomicAdd(buffers.slots + part, 1u);
                    if (slot < size) {
                        store_vector(buffers.tuples, u64(part) * size + slot, tuple);
                        __threadfence_block();
                        atomicAdd(buffers.filled + part, 1u);
                        pending = false;
                    } else {
                        owner = slot == size;
                    }
                }
                const u32 owners = __ballot_sync(ALL_LANES, owner);
                if (owners == 0) {
                    // Another warp writes the buffer.
                    if (pending) __nanosleep(32);
                    continue;
                }
                u32 base = 0;
                if (owner) {
                    while (atomicAdd(buffers.filled + part, 0u) < size) {
                    }
                    __threadfence_block();
                    base = HIERARCHICAL ? buffers.second[part] * SECOND_TUPLES + buffers.second_filled[part]
                                        : buffers.next[part];
                }
                __syncwarp();
                for (u32 left = owners; left != 0;) {
                    u32 of_team = left;
                    for (u32 before = lane() / team; before > 0; --before) of_team &= of_team - 1;
                    const u32 from = of_team == 0 ? 0 : __ffs(of_team) - 1;
                    const u32 its_part = __shfl_sync(ALL_LANES, part, from);
                    const u32 its_base = __shfl_sync(ALL_LANES, base, from);
                    const u64* const its_tuples = buffers.tuples + 2 * u64(its_part) * size;
                    if (of_team != 0) {
                        if (HIERARCHICAL) {
                            for (u32 i = lane() % team; i < size; i += team) {
                                store_vector(seconds, its_base + i, load_vector<2>(its_tuples, i));
                            }
                        } else {
                            radix_write(output, its_tuples, its_base - its_base % aligned, its_base, size,
                                        lane() % team, team);
                        }
                    }
                    for (u32 done = WARP / team; done > 0; --done) left &= left - 1;
                }
                __syncwarp();
                bool full = false;
                u32 full_base = 0;
                if (owner) {
                    if (HIERARCHICAL) {
                        buffers.second_filled[part] += size;
                        full = buffers.second_filled[part] == SECOND_TUPLES;
                        full_base = buffers.next[part];
                    } else {
                        buffers.next[part] = base - base % aligned + size;
                    }
                    store_vector(buffers.tuples, u64(part) * size, tuple);
                    pending = false;
                }
                // A full second-level buffer is replaced by the spare one of the warp under the lock, and
                // written after it.
                u32 full_lanes = HIERARCHICAL ? __ballot_sync(ALL_LANES, full) : 0;
                const auto unlock = [&] {
                    atomicExch(buffers.filled + part, 1u);
                    __threadfence_block();
                    atomicExch(buffers.slots + part, 1u);
                };
                if (owner && !full) {
                    __threadfence_block();
                    unlock();
                }
                for (; full_lanes != 0; full_lanes &= full_lanes - 1) {
                    const u32 from = __ffs(full_lanes) - 1;
                    u32 written = 0;
                    if (lane() == from) {
                        written = buffers.second[part];
                        buffers.second[part] = spare;
                        buffers.second_filled[part] = 0;
                        buffers.next[part] = full_base - full_base % LINE + SECOND_TUPLES;
                        __threadfence_block();
                        unlock();
                    }
                    const u32 its_base = __shfl_sync(ALL_LANES, full_base, from);
                    spare = __shfl_sync(ALL_LANES, written, from);
                    radix_write(output, seconds + u64(spare) * SECOND_TUPLES * 2, its_base - its_base % LINE,
                                its_base, SECOND_TUPLES, lane(), WARP);
                    __syncwarp();
                }
            }
        }
    }
    __syncthreads();
    for (u32 part = warp(); part < parts; part += warps()) {
        const u32 base = buffers.next[part];
        u32 window = base - base % (HIERARCHICAL ? LINE : aligned);
        if (HIERARCHICAL) {
            const u32 count = buffers.second_filled[part];
            radix_write(output, seconds + u64(buffers.second[part]) * SECOND_TUPLES * 2, window, base, count, lane(),
                        WARP);
            window += count;
        }
        radix_write(output, buffers.tuples + 2 * u64(part) * size, window, base, buffers.slots[part], lane(), WARP);
    }
}

}  // namespace galatea
