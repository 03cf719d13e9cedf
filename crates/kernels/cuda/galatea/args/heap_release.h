// Arguments of the kernel heap_release.
#pragma once

#include "galatea/heap/view.cuh"

namespace galatea {

struct HeapReleaseArguments {
    HeapView heap;
    u8* const* addresses;  // null addresses are skipped
    u64 count;
};

}  // namespace galatea
