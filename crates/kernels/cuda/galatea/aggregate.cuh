// Accumulators: 64-bit words with identity zero, so that a memset initialises every aggregate.
//
// - Sum64: wrapping 64-bit sum (counts, and sums proven to fit by their interval times the row count).
// - Sum128: two words, low then high, wrapping 128-bit sum.
// - SumF64: the bits of a double.
// - Max64: unsigned maximum. MIN and MAX of ordered values are maxima of an order-preserving mapping to u64
//   (`rank_*`); MIN maps through the complement. Zero is the least rank, so it is the identity.
// - Or64, Xor64: bits. AND is the complement of the OR of complements.
//
// The words reside in registers of a thread, as copies in shared memory, or in slots in global memory. 64-bit
// atomics on shared memory compile to compare-and-swap loops, so sums do not use them. A copy is private to a
// thread, or a sum is split into planes of 32-bit words with native atomics and carry, so that neighbouring
// copies are in neighbouring banks. Counts use one plane there.
#pragma once
#include "galatea/prelude.cuh"

namespace galatea {

// Order-preserving ranks; MIN uses the complement.
GALATEA_INLINE u64 rank_i64(i64 v) { return u64(v) ^ 0x8000000000000000ull; }
// Both zeros are equal, and every NaN is above infinity.
GALATEA_INLINE u64 rank_f64(double v) {
    const i64 bits = __double_as_longlong(v);
    const u64 rank = u64(bits) ^ (bits < 0 ? 0xffffffffffffffffull : 0x8000000000000000ull);
    return v == 0.0 ? 0x8000000000000000ull : v != v ? 0xfff8000000000000ull : rank;
}

// One thread owns the words, so no atomics are needed.
struct PrivateWords {
    static GALATEA_INLINE void sum64(u64* word, u64 v) { *word += v; }
    static GALATEA_INLINE void sum128(u64* low, u64* high, i128 v) {
        const u64 before = *low;
        const u64 after = before + u64(v);
        *low = after;
        *high += u64(u128(v) >> 64) + (after < before ? 1 : 0);
    }
    static GALATEA_INLINE void sum_f64(u64* word, double v) {
        *word = u64(__double_as_longlong(__longlong_as_double(i64(*word)) + v));
    }
    static GALATEA_INLINE void max64(u64* word, u64 rank) { if (rank > *word) *word = rank; }
    static GALATEA_INLINE void or64(u64* word, u64 bits) { *word |= bits; }
    static GALATEA_INLINE void xor64(u64* word, u64 bits) { *word ^= bits; }
};

// Many threads of a block share the words, which reside in shared memory. Values are read only after a
// barrier.
struct SharedWords {
    static GALATEA_INLINE void count(u32* word) { atomicAdd(word, 1u); }
    // Native 32-bit atomics on two planes: the old value of the low half determines the carry.
    static GALATEA_INLINE void sum64(u32* low, u32* high, u64 v) {
        const u32 old = atomicAdd(low, u32(v));
        const u32 up = u32(v >> 32) + (old + u32(v) < old ? 1u : 0u);
        if (up != 0) atomicAdd(high, up);
    }
    // The same for a 32-bit number.
    static GALATEA_INLINE void sum_narrow(u32* low, u32* high, u32 v) {
        if (atomicAdd(low, v) > ~v) atomicAdd(high, 1u);
    }
    // Four planes, `plane` words apart.
    static GALATEA_INLINE void sum128(u32* word, u32 plane, i128 v) {
        const u128 bits = u128(v);
        u64 carry = 0;
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            const u64 part = u64(u32(bits >> (32 * i))) + carry;  // at most 2^32, and then u32(part) is 0
            carry = part >> 32;
            if (u32(part) != 0) {
                const u32 old = atomicAdd(word + i * plane, u32(part));
                carry += old + u32(part) < old ? 1 : 0;
            }
        }
    }
    static GALATEA_INLINE void sum_f64(u64* word, double v) { atomicAdd(reinterpret_cast<double*>(word), v); }
    static GALATEA_INLINE void max64(u64* word, u64 rank) {
        if (rank > *reinterpret_cast<volatile u64*>(word))
            atomicMax(word, rank);
    }
    // Updates the two 32-bit halves, which have native atomics.
    static GALATEA_INLINE void or64(u64* word, u64 bits) {
        u32* const halves = reinterpret_cast<u32*>(word);
        const u32 low = u32(bits), high = u32(bits >> 32);
        if ((low & ~*reinterpret_cast<volatile u32*>(halves)) != 0) atomicOr(halves, low);
        if ((high & ~*reinterpret_cast<volatile u32*>(halves + 1)) != 0) atomicOr(halves + 1, high);
    }
    static GALATEA_INLINE void xor64(u64* word, u64 bits) {
        u32* const halves = reinterpret_cast<u32*>(word);
        const u32 low = u32(bits), high = u32(bits >> 32);
        if (low != 0) atomicXor(halves, low);
        if (high != 0) atomicXor(halves + 1, high);
    }
};

// Elements of an accumulator in shared memory for reading: `low` and `high` word of element `i`.
struct CountElements {
    const u32* words;
    GALATEA_INLINE u64 low(u32 i) const { return words[i]; }
    GALATEA_INLINE u64 high(u32) const { return 0; }
};
struct SplitElements {  // planes of halves, `plane` elements each; high words only with four planes
    const u32* words;
    u32 plane;
    bool wide;
    GALATEA_INLINE u64 low(u32 i) const { return u64(words[plane + i]) << 32 | words[i]; }
    GALATEA_INLINE u64 high(u32 i) const { return wide ? u64(words[3 * plane + i]) << 32 | words[2 * plane + i] : 0; }
};
struct WholeElements {  // whole words, high words `plane` elements further
    const u64* words;
    u32 plane;
    bool wide;
    GALATEA_INLINE u64 low(u32 i) const { return words[i]; }
    GALATEA_INLINE u64 high(u32 i) const { return wide ? words[plane + i] : 0; }
};

// Any thread may update the words, which reside in global memory; atomics are resolved in L2.
struct GlobalWords {
    static GALATEA_INLINE void sum64(u64* word, u64 v) {
        atomicAdd(word, v);
    }
    static GALATEA_INLINE void sum128(u64* low, u64* high, i128 v) {
        const u64 add = u64(v);
        const u64 old = atomicAdd(low, add);
        const u64 up = u64(u128(v) >> 64) + (old + add < old ? 1 : 0);
        if (up != 0) sum64(high, up);
    }
    static GALATEA_INLINE void sum_f64(u64* word, double v) { atomicAdd(reinterpret_cast<double*>(word), v); }
    static GALATEA_INLINE void max64(u64* word, u64 rank) {
        atomicMax(word, rank);
    }
    static GALATEA_INLINE void or64(u64* word, u64 bits) { atomicOr(word, bits); }
    static GALATEA_INLINE void xor64(u64* word, u64 bits) { atomicXor(word, bits); }
};

// How two partial words are merged, by kind; used by the merges below. A widening sum is 64 bits within a
// block and 128 bits in global memory. The least and greatest strings are positions of strings, which
// interned.cuh compares; they are not merged here.
enum class Merge : int { Sum64, Sum128, SumWidening, SumF64, Max64, Or64, Xor64, LeastString, GreatestString };

// Merges two partials of one accumulator.
template <Merge M>
GALATEA_INLINE void merge_words(u64& low, u64& high, u64 other, u64 other_high) {
    if (M == Merge::Sum64 || M == Merge::SumWidening) {
        low += other;
    } else if (M == Merge::Sum128) {
        const u64 sum = low + other;
        high += other_high + (sum < low ? 1 : 0);
        low = sum;
    } else if (M == Merge::SumF64) {
        low = u64(__double_as_longlong(__longlong_as_double(i64(low)) + __longlong_as_double(i64(other))));
    } else if (M == Merge::Or64) {
        low |= other;
    } else if (M == Merge::Xor64) {
        low ^= other;
    } else {
        low = other > low ? other : low;
    }
}

struct MergedWords {
    u64 low, high;
};

// Warp scope, full warp. Lane 0 holds the result; `high` only matters for Sum128. A kernel merges each of its
// accumulators once, so a call costs nothing, and it is compiled once for all that merge alike.
template <Merge M>
GALATEA_NOINLINE MergedWords merged_in_warp(u64 low, u64 high) {
#pragma unroll
    for (int delta = 16; delta > 0; delta >>= 1) {
        const u64 other = __shfl_down_sync(0xffffffffu, low, delta);
        const u64 other_high = M == Merge::Sum128 ? __shfl_down_sync(0xffffffffu, high, delta) : 0;
        merge_words<M>(low, high, other, other_high);
    }
    return {low, high};
}

template <Merge M>
GALATEA_INLINE void warp_merge(u64& low, u64& high) {
    const MergedWords merged = merged_in_warp<M>(low, high);
    low = merged.low;
    high = merged.high;
}

// Thread scope. Adds a merged partial to its group in global memory.
template <Merge M>
GALATEA_INLINE void merge_into(u64* word, u64 low, u64 high) {
    if (M == Merge::Sum64) { if (low != 0) GlobalWords::sum64(word, low); }
    else if (M == Merge::SumWidening) { if (low != 0) GlobalWords::sum128(word, word + 1, i128(i64(low))); }
    else if (M == Merge::Sum128) { GlobalWords::sum128(word, word + 1, i128((u128(high) << 64) | low)); }
    else if (M == Merge::SumF64) { GlobalWords::sum_f64(word, __longlong_as_double(i64(low))); }
    else if (M == Merge::Or64) { if (low != 0) GlobalWords::or64(word, low); }
    else if (M == Merge::Xor64) { if (low != 0) GlobalWords::xor64(word, low); }
    else { if (low != 0) GlobalWords::max64(word, low); }
}

// Marks the second word of a 128-bit sum, which is merged with the first.
constexpr u8 MERGE_HIGH = 255;

// Thread scope. Adds a partial group, with words `stride` apart, to the group in global memory; `merges`
// holds a Merge or MERGE_HIGH for each word.
GALATEA_INLINE void merge_group(u64* group, const u64* partial, u64 stride, u32 words, const u8* merges) {
    for (u32 w = 0; w < words; ++w) {
        const u64 low = partial[w * stride];
        switch (Merge(merges[w])) {
            case Merge::Sum64: merge_into<Merge::Sum64>(group + w, low, 0); break;
            case Merge::SumF64: merge_into<Merge::SumF64>(group + w, low, 0); break;
            case Merge::Max64: merge_into<Merge::Max64>(group + w, low, 0); break;
            case Merge::Or64: merge_into<Merge::Or64>(group + w, low, 0); break;
            case Merge::Xor64: merge_into<Merge::Xor64>(group + w, low, 0); break;
            case Merge::Sum128:
            case Merge::SumWidening: merge_into<Merge::Sum128>(group + w, low, partial[(w + 1) * stride]); break;
            default: break;  // MERGE_HIGH, and strings
        }
    }
}

// Warp scope, full warp, all lanes. Elements [first, first + copies) are copies of one accumulator; lane 0
// adds their combined value to `word`.
template <Merge M, typename Elements>
GALATEA_NOINLINE void merge_copies(Elements elements, u32 first, u32 copies, u64* word) {
    const u32 lane = threadIdx.x & 31u;
    u64 low = 0, high = 0;
    for (u32 c = first + lane; c < first + copies; c += 32) merge_words<M>(low, high, elements.low(c), elements.high(c));
    warp_merge<M>(low, high);
    if (lane == 0) merge_into<M>(word, low, high);
}

// Thread scope. The same with one thread, for few copies.
template <Merge M, typename Elements>
GALATEA_NOINLINE void merge_few(Elements elements, u32 first, u32 copies, u64* word) {
    u64 low = elements.low(first), high = elements.high(first);
    for (u32 c = first + 1; c < first + copies; ++c) merge_words<M>(low, high, elements.low(c), elements.high(c));
    merge_into<M>(word, low, high);
}

// Combines the updates of lanes of a warp that add to the same place: pairs of peers combine until one lane
// remains, which adds for all, because atomics on one address are serialised. After Adinetz, "Warp-aggregated
// reductions" (2014). It may be called from divergent code by the lanes of `lanes`; all of them call every
// function:
//
//     WarpPeers peers(lanes, place);
//     while (peers.pairs()) { peers.take<M>(low, high); ...; peers.halve(); }
//     if (peers.first()) ...
class WarpPeers {
public:
    template <typename Place>
    GALATEA_INLINE WarpPeers(u32 lanes, Place place) : active(lanes), peers(__match_any_sync(lanes, place)) {
        const u32 lane = threadIdx.x & 31u;
        later = peers & ~((2u << lane) - 1u);
        rank = __popc(peers & ((1u << lane) - 1u));
        lowest = rank == 0;
    }

    // Whether the lane is the first of its peers.
    GALATEA_INLINE bool first() const { return lowest; }

    // The number of peers that `holds` is true for.
    GALATEA_INLINE u64 count(bool holds) const { return u64(__popc(__ballot_sync(active, holds) & peers)); }

    // Whether pairs remain.
    GALATEA_INLINE bool pairs() const { return __any_sync(active, later != 0); }

    // Adds the words of the lane's next peer to its own.
    template <Merge M> GALATEA_INLINE void take(u64& low, u64& high) const {
        const u32 next = later != 0 ? u32(__ffs(later)) - 1u : threadIdx.x & 31u;
        const u64 other = __shfl_sync(active, low, next);
        const u64 other_high = M == Merge::Sum128 ? __shfl_sync(active, high, next) : 0;
        if (later != 0) merge_words<M>(low, high, other, other_high);
    }

    // Removes every second peer, which has been combined.
    GALATEA_INLINE void halve() {
        later &= __ballot_sync(active, (rank & 1u) == 0);
        rank >>= 1;
    }

private:
    u32 active, peers;
    u32 later;  // the peers after it that have not been combined
    u32 rank;
    bool lowest;
};

}  // namespace galatea
