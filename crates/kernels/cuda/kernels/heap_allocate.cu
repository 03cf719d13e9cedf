// Grid scope. One request per thread: measured by the allocation experiments, and used by the host to
// allocate blocks.
#include "galatea/args/heap_allocate.h"
#include "galatea/heap.cuh"

using namespace galatea;

extern "C" __global__ void __launch_bounds__(256, 8) heap_allocate(const HeapAllocateArguments args) {
    const u64 i = grid_thread();
    const u32 mask = __ballot_sync(first_lanes(live_lanes()), i < args.count);
    if (i >= args.count) return;
    HeapWalk walk = heap_walk(args.heap, i / WARP);
    const u64 bytes = args.sizes == nullptr ? args.bytes : args.sizes[i];
    args.addresses[i] = static_cast<u8*>(heap_alloc(args.heap, mask, bytes, walk));
}
