// Block scope. Partitioning by tiles: a block sorts a tile by partition in shared memory, and writes the runs
// of it. Adjacent threads write adjacent tuples, but runs begin and end anywhere in a line.
#pragma once

#include "galatea/radix/tuples.cuh"

namespace galatea {

// Shared memory of a block: a tile, and an element of each array for each partition.
struct RadixTile {
    u64* tuples;
    u32* counts;
    u32* firsts;  // position in the tile
    u32* next;    // position in the output of the next tuple
    u32* shifts;  // position in the output minus position in the tile

    GALATEA_INLINE RadixTile(unsigned char* shared, u32 tuples_of_tile, u32 parts) {
        tuples = reinterpret_cast<u64*>(shared);
        counts = reinterpret_cast<u32*>(tuples + 2 * u64(tuples_of_tile));
        firsts = counts + parts;
        next = firsts + parts;
        shifts = next + parts;
    }
};

// Consecutive partitions of a thread, for prefix sums.
GALATEA_INLINE void radix_own_parts(u32 parts, u32& from, u32& to) {
    const u32 each = (parts + blockDim.x - 1) / blockDim.x;
    from = threadIdx.x * each < parts ? threadIdx.x * each : parts;
    to = from + each < parts ? from + each : parts;
}

// Partitions tuples from `begin` to the input's end by `bits` bits of the hash from `shift` on. Before the
// call all counts are 0, `next` is set, and the block has met at a barrier.
template <u32 PAIRS>
GALATEA_INLINE void radix_tiles(const RadixTile& tile, u32 raw, u32 shift, u32 bits, const RadixInput& input,
                                const RadixOutput& output, u64 begin, Scratch<u32>& scratch) {
    using Batch = RadixBatch<PAIRS>;
    const u32 tile_tuples = warps() * Batch::WARP_TUPLES;
    u32 from;
    u32 to;
    radix_own_parts(1u << bits, from, to);
    Batch batch;
    radix_load(batch, input, begin + warp() * Batch::WARP_TUPLES);
    for (u64 first = begin; first < input.end; first += tile_tuples) {
        u32 taken[Batch::EACH];
#pragma unroll
        for (u32 t = 0; t < Batch::EACH; ++t) {
            if ((batch.valid >> t & 1) == 0) continue;
            const u32 part = radix_part(batch.tuple[t].item[0], raw, shift, bits);
            taken[t] = part << 16 | atomicAdd(tile.counts + part, 1u);
        }
        __syncthreads();
        u32 mine = 0;
        for (u32 part = from; part < to; ++part) mine += tile.counts[part];
        u32 total;
        u32 before = block_exclusive_scan(mine, Sum{}, total, scratch);
        for (u32 part = from; part < to; ++part) {
            const u32 count = tile.counts[part];
            tile.counts[part] = 0;
            tile.firsts[part] = before;
            tile.shifts[part] = tile.next[part] - before;
            tile.next[part] += count;
            before += count;
        }
        __syncthreads();
#pragma unroll
        for (u32 t = 0; t < Batch::EACH; ++t) {
            if ((batch.valid >> t & 1) == 0) continue;
            store_vector(tile.tuples, tile.firsts[taken[t] >> 16] + (taken[t] & 0xffffu), batch.tuple[t]);
        }
        __syncthreads();
        // The next tile is loaded while this one is written.
        radix_load(batch, input, first + tile_tuples + warp() * Batch::WARP_TUPLES);
        for (u32 at = threadIdx.x; at < total; at += blockDim.x) {
            const Tuple tuple = load_vector<2>(tile.tuples, at);
            const u32 part = radix_part(tuple.item[0], raw, shift, bits);
            radix_store(output, tile.shifts[part] + at, tuple);
        }
        __syncthreads();
    }
}

}  // namespace galatea
