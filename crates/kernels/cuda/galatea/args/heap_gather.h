// Arguments of the kernel heap_gather.
#pragma once

#include "galatea/page_chain.cuh"

namespace galatea {

struct HeapGatherArguments {
    PageChainsView chains;
    u64* columns;  // column c at columns + c * room
    u64* rows;     // receives the number of rows of all chains, also when not all fit
    u64 room;      // rows a column has room for
    u32 release;   // 1: pages go back to the heap once copied
    u32 padding;
};

}  // namespace galatea
