// Fills an array with pseudo-random values that the host can compute, too.
#include "galatea/args/fill_pattern.h"
#include "galatea/thread.cuh"

using namespace galatea;

extern "C" __global__ void fill_pattern(FillPatternArguments args) {
    for (u64 i = grid_thread(); i < args.count; i += grid_threads()) args.values[i] = mix64(args.seed + i);
}
