// Grid scope: the matches of a join with repeated keys, without materialising them.
//
//   probe rows      0    1    2      3       the probed rows
//   offsets         0    2    2      3   6   number of pairs before each, and of all pairs
//   first           4    -    0      1       start of its matches in the lists
//   lists           ... build rows, grouped by key
//
// Pair p belongs to the last probe row with an offset of at most p. A probe row without matches has no pair,
// or, in an outer join, one with the build row NO_ROW. The pairs are followed by rows without a match,
// because none of their pairs satisfies the condition of an outer join.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

constexpr u32 NO_ROW = ~0u;

// Words of the directory of a join; host twin: `PairWord` of crates/expression/src/built.rs.
constexpr u32 PAIR_PROBE_ROWS = 0;
constexpr u32 PAIR_COUNT = 1;
constexpr u32 PAIR_PROBE_ALONE = 2;
constexpr u32 PAIR_OFFSETS = 3;
constexpr u32 PAIR_FIRSTS = 4;
constexpr u32 PAIR_LISTS = 5;
constexpr u32 PAIR_KEPT = 6;
constexpr u32 PAIR_PROBE_NUMBERS = 7;
constexpr u32 PAIR_BUILD_NUMBERS = 8;

struct Pair {
    u64 number;
    u32 probe; // NO_ROW: the build row has no match
    u32 build; // NO_ROW: the probe row has no match
    bool kept; // it satisfies the condition
};

// Finds pairs by number; a thread mostly requests them in ascending order.
struct PairCursor {
    const u64* directory;
    const u64* offsets;
    u64 begin = ~0ull; // the pairs of probe row `row`; initially none
    u64 end = ~0ull;
    u32 row = 0;

    GALATEA_INLINE explicit PairCursor(const u8* table)
        : directory(reinterpret_cast<const u64*>(table)), offsets(reinterpret_cast<const u64*>(directory[PAIR_OFFSETS])) {}

    // Thread scope.
    GALATEA_INLINE Pair at(u64 number) {
        const u64 pairs = directory[PAIR_COUNT];
        if (number >= pairs) return alone(number - pairs, number);
        if (number < begin || number >= end) seek(number);
        const u32 first = reinterpret_cast<const u32*>(directory[PAIR_FIRSTS])[row];
        const u32* lists = reinterpret_cast<const u32*>(directory[PAIR_LISTS]);
        const u32* kept = reinterpret_cast<const u32*>(directory[PAIR_KEPT]);
        Pair pair;
        pair.number = number;
        pair.probe = row;
        pair.build = first == NO_ROW ? NO_ROW : lists[u64(first) + (number - begin)];
        pair.kept = kept == nullptr || (kept[number >> 5] >> (number & 31u) & 1u) != 0;
        return pair;
    }

    // Finds the probe row of the pair: the next one, or by binary search.
    GALATEA_INLINE void seek(u64 number) {
        const u64 rows = directory[PAIR_PROBE_ROWS];
        if (number == end && u64(row) + 1 < rows && number < offsets[row + 2]) {
            ++row;
        } else {
            u64 low = 0; // offsets[low] <= number
            u64 high = rows; // offsets[high] > number
            while (high - low > 1) {
                const u64 middle = (low + high) / 2;
                if (offsets[middle] <= number) low = middle;
                else high = middle;
            }
            row = u32(low);
        }
        begin = offsets[row];
        end = offsets[row + 1];
    }

    GALATEA_INLINE Pair alone(u64 at, u64 number) const {
        const u64 probe_rows = directory[PAIR_PROBE_ALONE];
        const u32* probe = reinterpret_cast<const u32*>(directory[PAIR_PROBE_NUMBERS]);
        const u32* build = reinterpret_cast<const u32*>(directory[PAIR_BUILD_NUMBERS]);
        Pair pair;
        pair.number = number;
        pair.kept = true;
        if (at < probe_rows) {
            pair.probe = probe == nullptr ? u32(at) : probe[at];
            pair.build = NO_ROW;
        } else {
            pair.probe = NO_ROW;
            pair.build = build[at - probe_rows];
        }
        return pair;
    }
};

// Thread scope. Sets a bit of a bitmap; null: no bitmap.
GALATEA_INLINE void mark(u8* bitmap, u64 bit) {
    u32* const word = reinterpret_cast<u32*>(bitmap) + (bit >> 5);
    const u32 mask = 1u << (bit & 31u);
    // For a row with many matches, most bits are set already.
    if (bitmap != nullptr && (*reinterpret_cast<volatile u32*>(word) & mask) == 0) atomicOr(word, mask);
}

}  // namespace galatea
