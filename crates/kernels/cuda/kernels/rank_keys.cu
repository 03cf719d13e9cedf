// Grid scope. Replaces the position of a string in the keys of rows by the rank of the string: from then on
// keys are in the order of rows. A key field of 0 represents NULL, and is unchanged.
#include "galatea/args/rank_keys.h"
#include "galatea/thread.cuh"

using namespace galatea;

namespace {

// Host twin: PLACE_FIELD_BITS of crates/kernels/src/kernels/rank_keys.rs.
constexpr u32 FIELD_BITS = 31;
constexpr u64 FIELD = (1ull << FIELD_BITS) - 1;

// A word of each key.
struct Words {
    u8* words;
    u32 bytes;

    GALATEA_INLINE u64 load(u64 row) const {
        return bytes == 4 ? reinterpret_cast<const u32*>(words)[row] : reinterpret_cast<const u64*>(words)[row];
    }
    GALATEA_INLINE void flip(u64 row, u64 bits) const {
        if (bytes == 4) {
            reinterpret_cast<u32*>(words)[row] ^= u32(bits);
        } else {
            reinterpret_cast<u64*>(words)[row] ^= bits;
        }
    }
};

}  // namespace

extern "C" __global__ void rank_keys(const __grid_constant__ RankKeysArguments args) {
    const Words low = {args.low, args.low_bytes}, high = {args.high, args.high_bytes};
    const u32 in_low = 64 - args.bit;
    const bool beyond = in_low < FIELD_BITS;
    for (u64 row = grid_thread(); row < args.rows; row += grid_threads()) {
        u64 field = low.load(row) >> args.bit;
        if (beyond) field |= high.load(row) << in_low;
        field &= FIELD;
        if (field == 0) continue;
        const u64 rank = args.descending == 0 ? args.ranks[field] : args.texts + 1 - args.ranks[FIELD - field];
        low.flip(row, (field ^ rank) << args.bit);
        if (beyond) high.flip(row, (field ^ rank) >> in_low);
    }
}
