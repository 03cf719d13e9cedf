// Grid scope. The first position of each run of positions, from the prefix sums of the run beginnings.
#include "galatea/args/window_starts.h"
#include "galatea/thread.cuh"

using namespace galatea;

extern "C" __global__ void window_starts(const __grid_constant__ WindowStartsArguments args) {
    for (u64 place = grid_thread(); place <= args.rows; place += grid_threads()) {
        const u32 run = args.sums[place];
        if (place == args.rows || args.sums[place + 1] != run) args.starts[run] = u32(place);
    }
}
