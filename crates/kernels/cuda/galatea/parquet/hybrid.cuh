// Block scope: the hybrid of run-length and bit-packed runs that Parquet uses for levels, dictionary indices
// and booleans. One thread locates the next runs; then all threads decode their values.
#pragma once

#include "galatea/block.cuh"
#include "galatea/parquet/page.cuh"

namespace galatea {

// Runs that are located together.
constexpr u32 HYBRID_RUNS = 64;

// Consecutive runs, in shared memory.
struct HybridRuns {
    u32 first[HYBRID_RUNS];   // first value of each run
    u32 source[HYBRID_RUNS];  // bit-packed: position of its bytes; else: the value
    bool packed[HYBRID_RUNS];
    u32 count;
    u32 end;  // end of their values; the start if the bytes end too early
};

// Locates runs from value `done` on, called by one thread. Each run is cut at the number of values. Sets
// `end` to `done` if the runs end too early.
GALATEA_INLINE void locate_runs(HybridRuns& runs, PageBytes& in, u32 width, u32 done, u32 values) {
    const u32 start = done;
    u32 count = 0;
    while (count < HYBRID_RUNS && done < values) {
        u64 header;
        if (!read_varint(in, header)) break;
        const bool packed = header & 1;
        // A longer run than a page can have is cut: its end is never reached.
        const u64 length = header >> 1 < 0x1fffffff ? header >> 1 : 0x1fffffff;
        const u64 of_run = packed ? length * 8 : length;
        const u32 taken = of_run < values - done ? u32(of_run) : values - done;
        u32 source = in.at;
        if (packed) {
            if ((u64(taken) * width + 7) / 8 > in.left()) break;
            const u64 bytes = length * width;
            in.at = bytes < in.left() ? in.at + u32(bytes) : in.end;
        } else {
            const u32 bytes = (width + 7) / 8;
            if (bytes > in.left()) break;
            source = 0;
            for (u32 byte = 0; byte < bytes; ++byte) source |= u32(in.bytes[in.at++]) << (8 * byte);
        }
        // Each header has a byte at least, so empty runs end, too.
        if (taken == 0) continue;
        runs.first[count] = done;
        runs.source[count] = source;
        runs.packed[count] = packed;
        done += taken;
        ++count;
    }
    const bool early = count < HYBRID_RUNS && done < values;
    runs.count = count;
    runs.end = early ? start : done;
}

// Decodes `values` values of `width` <= 32 bits. Every thread of the block calls it. `visit(first, value,
// inside, bits, begin)` is called by whole warps: `first` is the value of lane 0, a multiple of 32; `inside`:
// this lane's value is decoded by this call; `begin`: values before it were visited by earlier calls, with a
// barrier between. Returns the number of decoded values, the same on every thread; fewer if runs end early.
template <typename Visit>
GALATEA_INLINE u32 decode_hybrid(HybridRuns& runs, PageBytes in, u32 width, u32 values, Visit visit) {
    u32 done = 0;
    while (done < values) {
        if (threadIdx.x == 0) locate_runs(runs, in, width, done, values);
        __syncthreads();
        const u32 end = runs.end;
        for (u32 first = (done / WARP + warp()) * WARP; first < end; first += blockDim.x) {
            const u32 value = first + lane();
            const bool inside = value >= done && value < end;
            u32 bits = 0;
            if (inside) {
                u32 run = 0;
                for (u32 after = runs.count; after - run > 1;) {
                    const u32 middle = (run + after) / 2;
                    if (runs.first[middle] <= value) run = middle; else after = middle;
                }
                const u64 bit = u64(value - runs.first[run]) * width;
                bits = runs.packed[run] ? u32(load_bits(in.bytes + runs.source[run], bit, width)) : runs.source[run];
            }
            visit(first, value, inside, bits, done);
        }
        __syncthreads();
        if (end == done) break;
        done = end;
    }
    return done;
}

}  // namespace galatea
