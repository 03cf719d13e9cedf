// Grid scope: tuples of a partitioned hash join (Lutz 2022, chapter 4), their partitions, and the tuples that
// each block of a grid partitions.
//
// A tuple has a 64-bit key and a 64-bit value. Input is two columns, a column of keys with the numbers of
// tuples as values, or rows of 16 bytes. The partition of a tuple is a range of bits of its hashed key;
// with `raw`, of its key.
#pragma once

#include "galatea/block.cuh"

namespace galatea {

constexpr u32 RADIX_MOST_BITS = 11;
constexpr u32 ALL_LANES = 0xffffffffu;

using Tuple = Vector<u64, 2>;

// The bits of a tuple that determine its partitions.
GALATEA_INLINE u64 radix_hash(u64 key, u32 raw) { return raw != 0 ? key : mix64(key); }

// The partition by `bits` bits of the hash from bit `shift` on.
GALATEA_INLINE u32 radix_part(u64 key, u32 raw, u32 shift, u32 bits) {
    return u32(radix_hash(key, raw) >> shift) & ((1u << bits) - 1);
}

// Tuples as columns; without values, `keys` are rows of a key and a value, unless tuples are numbered.
struct RadixInput {
    const u64* keys;
    const u64* values;
    u64 end;        // one past the last tuple of this block
    u32 numbered;   // 1: `keys` is a column, and the value of a tuple is its number
    u64 number;     // number of the first tuple of the column
};

// Tuples of a thread, loaded together: `valid` has a bit for each that exists. Each step of a warp has 64
// consecutive tuples.
template <u32 PAIRS> struct RadixBatch {
    static constexpr u32 EACH = 2 * PAIRS;          // tuples of a thread
    static constexpr u32 WARP_TUPLES = WARP * EACH;  // tuples of a warp
    Tuple tuple[EACH];
    u32 valid;
};

// Warp scope, no collectives. Loads the tuples of a warp from `first`, an even number, on.
template <u32 PAIRS> GALATEA_INLINE void radix_load(RadixBatch<PAIRS>& batch, const RadixInput& input, u64 first) {
    batch.valid = 0;
    if (input.values == nullptr && input.numbered == 0) {
#pragma unroll
        for (u32 t = 0; t < 2 * PAIRS; ++t) {
            const u64 at = first + t * WARP + lane();
            batch.tuple[t] = {};
            if (at >= input.end) continue;
            batch.tuple[t] = load_vector<2>(input.keys, at);
            batch.valid |= 1u << t;
        }
        return;
    }
#pragma unroll
    for (u32 t = 0; t < PAIRS; ++t) {
        const u64 at = first + t * 2 * WARP + 2 * lane();
        Vector<u64, 2> keys = {};
        Vector<u64, 2> values = {};
        if (at + 1 < input.end) {
            keys = load_vector<2>(input.keys, at / 2);
            if (input.numbered != 0) values = {input.number + at, input.number + at + 1};
            else values = load_vector<2>(input.values, at / 2);
            batch.valid |= 3u << 2 * t;
        } else if (at < input.end) {
            keys.item[0] = input.keys[at];
            values.item[0] = input.numbered != 0 ? input.number + at : input.values[at];
            batch.valid |= 1u << 2 * t;
        }
        batch.tuple[2 * t] = {keys.item[0], values.item[0]};
        batch.tuple[2 * t + 1] = {keys.item[1], values.item[1]};
    }
}

// Rows of tuples in an array, or in pages of 2^bits tuples, each anywhere in device or host memory.
struct RadixOutput {
    u64* rows;         // if `pages` is null
    const u64* pages;  // addresses
    u32 bits;
};

GALATEA_INLINE void radix_store(const RadixOutput& output, u32 at, const Tuple& tuple) {
    if (output.pages == nullptr) {
        store_vector(output.rows, at, tuple);
    } else {
        u64* const page = reinterpret_cast<u64*>(output.pages[at >> output.bits]);
        store_vector(page, at & ((1u << output.bits) - 1), tuple);
    }
}

}  // namespace galatea
