// Arguments of the kernel heap_release.
#pragma once

#include "galatea/heap/view.cuh"

namespace galatea {

struct HeapReleaseArguments {
    Heap heap;
    u8* const* addresses;  // null ones are passed over
    u64 count;
};

}  // namespace galatea
