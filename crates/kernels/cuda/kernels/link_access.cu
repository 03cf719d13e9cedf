// Grid scope. Reads or writes pieces of memory, host or device. A lane moves 4, 8 or 16 bytes at once, so a
// piece belongs to one lane or to adjacent lanes, and a lane has the loads of several pieces in flight. The
// value written to word i is a hash of i and the seed.
#include "galatea/args/link_access.h"
#include "galatea/warp.cuh"

using namespace galatea;

namespace {

// The units of `W` words that a lane accesses: every `grid_threads()`th of the units of all pieces in
// sequence.
struct Cursor {
    u64 units;         // of a piece
    u64 piece;
    u64 unit;          // within the piece
    u64 step_pieces;   // whole pieces, and units beyond them, from one unit of this lane to its next
    u64 step_units;

    GALATEA_INLINE explicit Cursor(u64 units_of_piece)
        : units(units_of_piece), piece(grid_thread() / units_of_piece), unit(grid_thread() % units_of_piece),
          step_pieces(grid_threads() / units_of_piece), step_units(grid_threads() % units_of_piece) {}

    GALATEA_INLINE void advance() {
        piece += step_pieces;
        unit += step_units;
        if (unit >= units) {
            unit -= units;
            ++piece;
        }
    }
};

// The position of a piece in memory.
GALATEA_INLINE u64 place_of(const LinkAccessArguments& args, u64 piece) {
    // Uses the high half of a product instead of a remainder, which takes a hundred instructions.
    if (args.random) return u64((u128(mix64(args.seed + piece)) * args.places) >> 64);
    return piece < args.places ? piece : piece % args.places;
}

// Accesses all units of this lane by instructions that move `W` words each; returns the sum of words read.
template <u32 W> GALATEA_INLINE u64 access(const LinkAccessArguments& args) {
    constexpr u32 TOGETHER = 8;
    u64 sum = 0;
    for (Cursor cursor(args.granule_words / W); cursor.piece < args.granules;) {
        Vector<u32, W> values[TOGETHER];
#pragma unroll
        for (u32 t = 0; t < TOGETHER; ++t) {
            values[t] = {};
            if (cursor.piece < args.granules) {
                const u64 index = place_of(args, cursor.piece) * cursor.units + cursor.unit;
                if (args.writes) {
#pragma unroll
                    for (u32 w = 0; w < W; ++w) values[t].item[w] = u32(mix64(args.seed ^ (index * W + w)));
                    store_vector<W>(args.words, index, values[t]);
                } else {
                    values[t] = load_vector<W>(args.words, index);
                }
            }
            cursor.advance();
        }
        if (args.writes) continue;
#pragma unroll
        for (u32 t = 0; t < TOGETHER; ++t) {
#pragma unroll
            for (u32 w = 0; w < W; ++w) sum += values[t].item[w];
        }
    }
    return sum;
}

}  // namespace

extern "C" __global__ void link_access(const LinkAccessArguments args) {
    u64 sum = 0;
    if (args.unit_words == 4) {
        sum = access<4>(args);
    } else if (args.unit_words == 2) {
        sum = access<2>(args);
    } else {
        sum = access<1>(args);
    }
    if (args.writes) return;
    sum = warp_reduce(sum, Sum{});
    if (lane() == 0 && sum != 0) atomicAdd(args.sum, sum);
}
