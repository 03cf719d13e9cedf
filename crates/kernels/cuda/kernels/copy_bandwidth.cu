// Copies an array within device memory: two independent 16-byte loads in flight per thread.
#include "galatea/args/copy_bandwidth.h"
#include "galatea/thread.cuh"

using namespace galatea;

extern "C" __global__ void copy_bandwidth(CopyBandwidthArguments args) {
    const u64 vectors = args.count / 2;
    const u64 threads = grid_threads();
    u64 i = grid_thread();
    for (; i + threads < vectors; i += 2 * threads) {
        const Vector<u64, 2> a = load_vector<2>(args.source, i);
        const Vector<u64, 2> b = load_vector<2>(args.source, i + threads);
        store_vector(args.target, i, a);
        store_vector(args.target, i + threads, b);
    }
    if (i < vectors) store_vector(args.target, i, load_vector<2>(args.source, i));
}
