// Grid scope. Adds the copies of dense groups in global memory to the first ones.
#include "galatea/aggregate.cuh"
#include "galatea/args/dense_fold.h"
#include "galatea/thread.cuh"

using namespace galatea;

extern "C" __global__ void dense_fold(const __grid_constant__ DenseFoldArguments args) {
    for (u64 at = args.count + grid_thread(); at < args.count * args.copies; at += grid_threads()) {
        const u64 group = at % args.count;
        merge_group(args.groups + group * args.words, args.groups + at * args.words, 1, args.words, args.merges);
    }
}
