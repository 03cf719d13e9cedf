// Grid scope. Exclusive prefix sums of counts, and their total: first every block sums its own counts, then,
// in another launch, it adds the totals of the blocks before it and scans its counts again. Sums wrap.
#include "galatea/args/prefix_sum.h"
#include "galatea/block.cuh"

using namespace galatea;

namespace {

constexpr u32 COUNTS_OF_A_THREAD = 4;

template <typename T> GALATEA_INLINE T load(const PrefixSumArguments& args, u64 at) {
    return args.counts != nullptr ? T(args.counts[at]) : reinterpret_cast<const T*>(args.wide)[at];
}

template <typename T> GALATEA_INLINE void store(const PrefixSumArguments& args, u64 at, T sum) {
    if (args.narrow != nullptr) args.narrow[at] = u32(sum);
    if (args.wide != nullptr) reinterpret_cast<T*>(args.wide)[at] = sum;
}

template <typename T> GALATEA_INLINE void add_up(const PrefixSumArguments& args, Scratch<T>& scratch) {
    T* const totals = reinterpret_cast<T*>(args.totals);
    const u64 begin = u64(blockIdx.x) * args.per_block;
    const u64 end = begin + args.per_block < args.count ? begin + args.per_block : args.count;
    if (args.phase == 0) {
        T sum = 0;
        for (u64 at = begin + threadIdx.x; at < end; at += blockDim.x) sum += load<T>(args, at);
        sum = block_reduce(sum, Sum{}, scratch);
        if (threadIdx.x == 0) totals[blockIdx.x] = sum;
        return;
    }
    T before = 0;
    for (u32 block = threadIdx.x; block < blockIdx.x; block += blockDim.x) before += totals[block];
    before = block_reduce(before, Sum{}, scratch);
    const u64 step = u64(blockDim.x) * COUNTS_OF_A_THREAD;
    for (u64 from = begin; from < end; from += step) {
        const u64 mine = from + u64(threadIdx.x) * COUNTS_OF_A_THREAD;
        T counts[COUNTS_OF_A_THREAD];
        T sum = 0;
#pragma unroll
        for (u32 i = 0; i < COUNTS_OF_A_THREAD; ++i) {
            counts[i] = mine + i < end ? load<T>(args, mine + i) : T(0);
            sum += counts[i];
        }
        T total;
        T upto = before + block_exclusive_scan(sum, Sum{}, total, scratch);
#pragma unroll
        for (u32 i = 0; i < COUNTS_OF_A_THREAD; ++i) {
            if (mine + i < end) store(args, mine + i, upto);
            upto += counts[i];
        }
        before += total;
    }
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) store(args, args.count, before);
}

}  // namespace

extern "C" __global__ void prefix_sum(const __grid_constant__ PrefixSumArguments args) {
    if (args.width == sizeof(u128)) {
        __shared__ Scratch<u128> scratch;
        add_up<u128>(args, scratch);
    } else {
        __shared__ Scratch<u64> scratch;
        add_up<u64>(args, scratch);
    }
}
