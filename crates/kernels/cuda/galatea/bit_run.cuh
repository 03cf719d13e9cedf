// Thread scope. Sets bits of a bitmap in global memory. Consecutive bits of one word take one atomic: if the
// key is clustered, the rows of a thread are mostly in one word.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct BitRun {
    u32* words;
    u32 word = 0;
    u32 bits = 0;

    GALATEA_INLINE explicit BitRun(u32* bitmap) : words(bitmap) {}

    GALATEA_INLINE void set(u32 index) {
        if (index >> 5 != word) {
            flush();
            word = index >> 5;
        }
        bits |= 1u << (index & 31u);
    }

    // Writes the pending bits; to be called once after the last bit.
    GALATEA_INLINE void flush() {
        if (bits != 0) atomicOr(words + word, bits);
        bits = 0;
    }
};

}  // namespace galatea
