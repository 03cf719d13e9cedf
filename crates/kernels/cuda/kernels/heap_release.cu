// Grid scope. Frees one block per thread.
#include "galatea/args/heap_release.h"
#include "galatea/heap.cuh"

using namespace galatea;

extern "C" __global__ void heap_release(const HeapReleaseArguments args) {
    const u64 i = grid_thread();
    const u32 mask = __ballot_sync(first_lanes(live_lanes()), i < args.count);
    if (i >= args.count) return;
    heap_free(args.heap, mask, args.addresses[i]);
}
