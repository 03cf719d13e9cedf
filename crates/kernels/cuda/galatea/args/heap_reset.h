// Arguments of the kernel heap_reset.
#pragma once

#include "galatea/heap/view.cuh"

namespace galatea {

// Contents of `own` and the balances, by search.
enum HeapOwn : u32 {
    HEAP_OWN_ZEROS = 0,  // nothing, lock maps, ends of blocks
    HEAP_OWN_FLAGS = 1,  // a 32-bit word per page, 1 = free
    HEAP_OWN_RING = 2,   // free page numbers plus one, and balances[0] for all of them
};

struct HeapResetArguments {
    HeapView heap;        // everything except the bitmap is already cleared
    const u64* free;  // a bit per page, 1 = free; null: all are
    u32 own;          // a HeapOwn
    u32 padding;
};

}  // namespace galatea
