// Arguments of the kernel heap_gather.
#pragma once

#include "galatea/page_chain.cuh"

namespace galatea {

struct HeapGatherArguments {
    PageChainsView chains;
    u64* columns;  // column c at columns + c * room
    u64* rows;     // receives the number of rows of all chains, also if not all fit
    u64 room;      // rows that fit in a column
    u32 release;   // 1: pages are released to the heap after the copy
    u32 padding;
};

}  // namespace galatea
