// Arguments of the kernel heap_verify.
#pragma once

#include "galatea/heap/view.cuh"

namespace galatea {

// Words of the result.
enum HeapVerified : u32 {
    HEAP_FREE_BITS = 0,    // pages free by the bitmap (or the flags)
    HEAP_FREE_BALANCE,     // pages free by the balances
    HEAP_WRONG_BALANCES,   // superblocks whose balance is not the number of their free bits
    HEAP_UNANNOUNCED,      // superblocks with free pages in a group that the summary leaves out
    HEAP_STRAY_BITS,       // free bits after the last page
    HEAP_VERIFIED_WORDS,
};

struct HeapVerifyArguments {
    Heap heap;
    u64* result;  // HEAP_VERIFIED_WORDS words, cleared
    u32 flags;    // 1: pages are free by the flags in `own`, not by the bitmap
    u32 balances; // 1: balances and summary are kept, and are compared
};

}  // namespace galatea
