// Arguments of the kernel heap_allocate.
#pragma once

#include "galatea/heap/view.cuh"

namespace galatea {

struct HeapAllocateArguments {
    Heap heap;
    const u64* sizes;  // bytes per request; null: `bytes` for all
    u8** addresses;    // receives the address of each, or null
    u64 count;
    u64 bytes;
};

}  // namespace galatea
