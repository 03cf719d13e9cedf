// Reads an array once, at the full bandwidth of device memory: four independent 16-byte loads in flight per
// thread.
#include "galatea/args/read_bandwidth.h"
#include "galatea/block.cuh"

using namespace galatea;

extern "C" __global__ void read_bandwidth(ReadBandwidthArguments args) {
    __shared__ Scratch<u64> scratch;
    const u64 vectors = args.count / 2;
    const u64 threads = grid_threads();
    u64 sum = 0;
    u64 i = grid_thread();
    for (; i + 3 * threads < vectors; i += 4 * threads) {
        const Vector<u64, 2> a = load_vector<2>(args.values, i);
        const Vector<u64, 2> b = load_vector<2>(args.values, i + threads);
        const Vector<u64, 2> c = load_vector<2>(args.values, i + 2 * threads);
        const Vector<u64, 2> d = load_vector<2>(args.values, i + 3 * threads);
        sum += a.item[0] + a.item[1] + b.item[0] + b.item[1] + c.item[0] + c.item[1] + d.item[0] + d.item[1];
    }
    for (; i < vectors; i += threads) {
        const Vector<u64, 2> a = load_vector<2>(args.values, i);
        sum += a.item[0] + a.item[1];
    }
    sum = block_reduce(sum, Sum{}, scratch);
    if (threadIdx.x == 0) args.sums[blockIdx.x] = sum;
}
