// Thread scope: bitmaps of what is free, 1 = free, in words of 32 or 64 bits: which bit to look at, and how
// bits are claimed and given back. Pages of the device heap are taken so (claim.cuh and the searches), and
// frames of streams (flow/frame.cuh).
//
// Bits are changed by relaxed atomics of device scope alone, so a bitmap belongs to the blocks of one launch;
// the host has bitmaps of its own (galatea_kernels::flow::HostHeap). Each claim asks for bits that were seen
// free, and learns from the word that was there which of them it has got.
#pragma once

#include "galatea/thread.cuh"

namespace galatea {

// -DGALATEA_HEAP_CHECK: foreign pointers, double frees and sizes too large are noted; no trap, no effect
// otherwise.
#ifdef GALATEA_HEAP_CHECK
constexpr bool HEAP_CHECKS = true;
#else
constexpr bool HEAP_CHECKS = false;
#endif

// A position scaled to [0, n): neither biased nor a division (`%` is both).
GALATEA_INLINE u64 scaled(u64 position, u64 n) { return __umul64hi(position, n); }

// A place less than n behind the last of n, as one round the end.
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

// Claims the bits `asked`; the word before: its bits among them are the caller's, the others had been taken.
template <typename Word> GALATEA_INLINE Word claim_bits(Word* word, Word asked) { return atomicAnd(word, Word(~asked)); }

// Claims one bit; whether it was free.
template <typename Word> GALATEA_INLINE bool claim_bit(Word* word, u32 bit) {
    return (claim_bits(word, Word(Word(1) << bit)) >> bit & 1) != 0;
}

// Gives bits back; the word before: its bits among them were free already, so they are given back twice.
template <typename Word> GALATEA_INLINE Word free_bits(Word* word, Word bits) { return atomicOr(word, bits); }

constexpr u32 NO_BIT = 0xffffffffu;

// Claims a bit of a bitmap of `words` words: one word after another from `start` on, round the end, which is
// a linear hash path where `start` is a hash. NO_BIT: each word was seen without a free bit once.
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
