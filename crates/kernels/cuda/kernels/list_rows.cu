// Grid scope. Groups row numbers by key.
#include "galatea/args/list_rows.h"
#include "galatea/thread.cuh"

using namespace galatea;

extern "C" __global__ void list_rows(const __grid_constant__ ListRowsArguments args) {
    for (u64 row = grid_thread(); row < args.count; row += grid_threads()) {
        const u32 slot = args.slots[row];
        if (slot != ~0u) args.lists[args.starts[slot] + args.ranks[row]] = u32(row);
    }
}
