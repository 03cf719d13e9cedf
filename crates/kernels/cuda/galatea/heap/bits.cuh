// Thread scope: bitmaps of free items, 1 = free, in words of 32 or 64 bits: selecting, claiming and releasing
// bits. They are used for pages of the device heap (claim.cuh and the searches) and for frames of streams
// (flow/frame.cuh).
//
// Bits are changed only by relaxed atomics of device scope, so a bitmap belongs to the blocks of one launch;
// the host has its own bitmaps (galatea_kernels::flow::HostHeap). Each claim requests bits that were seen
// free, and the previous value of the word determines which of them it obtained.
#pragma once

#include "galatea/thread.cuh"

namespace galatea {

// -DGALATEA_HEAP_CHECK: foreign pointers, double frees and sizes that are too large are recorded, without a
// trap or another effect.
#ifdef GALATEA_HEAP_CHECK
constexpr bool HEAP_CHECKS = true;
#else
constexpr bool HEAP_CHECKS = false;
#endif

// A position scaled to [0, n): unbiased and without a division (`%` has both problems).
GALATEA_INLINE u64 scaled(u64 position, u64 n) { return __umul64hi(position, n); }

// A position less than n beyond the end of n, wrapped around.
template <typename T> GALATEA_INLINE T wrapped(T at, T n) { return at < n ? at : at - n; }

// Position of set bit number `n` (from 0) of a word that has more than n.
GALATEA_INLINE u32 select_bit(u64 word, u32 n) {
    u32 bits = u32(word);
    u32 at = 0;
    const u32 low = __popc(bits);
    if (n >= low) { n -= low; bits = u32(word >> 32); at = 32; }
#pragma unroll
    for (u32 width = 16; width > 0; width /= 2) {
        const u32 count = __popc(bits & ((1u << width) - 1));
        if (n >= count) { n -= count; bits >>= width; at += width; }
    }
    return at;
}

// The first `count` bits, 0 <= count <= 64.
GALATEA_INLINE u64 low_bits(u32 count) { return count >= 64 ? ~0ull : (1ull << count) - 1; }

// Claims the bits `asked`; returns the previous word: of its bits among them, the caller owns those that were
// set, the others had been taken.
template <typename Word> GALATEA_INLINE Word claim_bits(Word* word, Word asked) { return atomicAnd(word, Word(~asked)); }

// Claims one bit; returns whether it was free.
template <typename Word> GALATEA_INLINE bool claim_bit(Word* word, u32 bit) {
    return (claim_bits(word, Word(Word(1) << bit)) >> bit & 1) != 0;
}

// Releases bits; returns the previous word: those already set in it are released twice.
template <typename Word> GALATEA_INLINE Word free_bits(Word* word, Word bits) { return atomicOr(word, bits); }

constexpr u32 NO_BIT = 0xffffffffu;

// Claims a bit of a bitmap of `words` words: probes word by word from `start` on, wrapping around, which is a
// linear hash path if `start` is a hash. NO_BIT: each word was seen without a free bit once.
template <typename Word> GALATEA_INLINE u32 claim_from(Word* bitmap, u32 words, u32 start) {
    constexpr u32 BITS = 8 * sizeof(Word);
    for (u32 probe = 0; probe < words; ++probe) {
        const u32 word = wrapped(start + probe, words);
        for (Word bits = __ldcg(bitmap + word); bits != 0;) {
            const u32 bit = __ffsll(i64(u64(bits))) - 1;
            const Word before = claim_bits(bitmap + word, Word(Word(1) << bit));
            if ((before >> bit & 1) != 0) return word * BITS + bit;
            bits = before;
        }
    }
    return NO_BIT;
}

}  // namespace galatea
