// Arguments of the kernel heap_verify.
#pragma once

#include "galatea/heap/view.cuh"

namespace galatea {

// Words of the result.
enum HeapVerified : u32 {
    HEAP_FREE_BITS = 0,    // free pages according to the bitmap (or the flags)
    HEAP_FREE_BALANCE,     // free pages according to the balances
    HEAP_WRONG_BALANCES,   // superblocks with a balance other than the number of their free bits
    HEAP_UNANNOUNCED,      // superblocks with free pages in a group that is not in the summary
    HEAP_STRAY_BITS,       // free bits after the last page
    HEAP_VERIFIED_WORDS,
};

struct HeapVerifyArguments {
    HeapView heap;
    u64* result;  // HEAP_VERIFIED_WORDS words, cleared
    u32 flags;    // 1: the flags in `own`, not the bitmap, mark free pages
    u32 balances; // 1: balances and summary are maintained and checked
};

}  // namespace galatea
