// Grid scope. Counts the values of every digit of the keys in one read. Digits that are equal in all of a
// warp's keys are counted by one lane: otherwise the upper digits of small keys would cause conflicts of all
// lanes.
#include "galatea/args/sort_histogram.h"

using namespace galatea;

constexpr u32 KEYS = 16 / sizeof(SortKey);  // of a load
constexpr u32 LOADS = 4;                    // in flight

extern "C" __global__ void sort_histogram(const __grid_constant__ SortHistogramArguments args) {
    __shared__ u32 counts[SORT_DIGITS][SORT_BINS];
    for (u32 at = threadIdx.x; at < SORT_DIGITS * SORT_BINS; at += blockDim.x) counts[at / SORT_BINS][at % SORT_BINS] = 0;
    __syncthreads();

    const SortKey* const keys = reinterpret_cast<const SortKey*>(args.keys);
    const auto count = [&](SortKey key, u32 digits) {
#pragma unroll
        for (u32 digit = 0; digit < SORT_DIGITS; ++digit) {
            if ((digits >> digit & 1) != 0) atomicAdd(&counts[digit][sort_digit(key, digit * SORT_DIGIT_BITS)], 1u);
        }
    };
    constexpr u32 ALL = (1u << SORT_DIGITS) - 1;
    // Warps take whole runs of keys, so that all their lanes take part in finding the common digits.
    constexpr u32 RUN = WARP * LOADS;  // loads of a warp
    const u64 runs = args.rows / (KEYS * RUN);
    for (u64 run = grid_thread() / WARP; run < runs; run += grid_threads() / WARP) {
        Vector<SortKey, KEYS> loaded[LOADS];
#pragma unroll
        for (u32 load = 0; load < LOADS; ++load) {
            loaded[load] = load_vector<KEYS>(keys, run * RUN + load * WARP + lane());
        }
        const SortKey first = __shfl_sync(0xffffffffu, loaded[0].item[0], 0);
        SortKey differ = 0;
#pragma unroll
        for (u32 load = 0; load < LOADS; ++load) {
#pragma unroll
            for (u32 k = 0; k < KEYS; ++k) differ |= loaded[load].item[k] ^ first;
        }
        u64 bits = __reduce_or_sync(0xffffffffu, u32(differ));
        if (sizeof(SortKey) == 8) bits |= u64(__reduce_or_sync(0xffffffffu, u32(u64(differ) >> 32))) << 32;
        u32 digits = 0;
#pragma unroll
        for (u32 digit = 0; digit < SORT_DIGITS; ++digit) {
            if (sort_digit(SortKey(bits), digit * SORT_DIGIT_BITS) != 0) {
                digits |= 1u << digit;
            } else if (lane() == 0) {
                atomicAdd(&counts[digit][sort_digit(first, digit * SORT_DIGIT_BITS)], KEYS * RUN);
            }
        }
#pragma unroll
        for (u32 load = 0; load < LOADS; ++load) {
#pragma unroll
            for (u32 k = 0; k < KEYS; ++k) count(loaded[load].item[k], digits);
        }
    }
    for (u64 at = runs * RUN * KEYS + grid_thread(); at < args.rows; at += grid_threads()) count(keys[at], ALL);

    __syncthreads();
    for (u32 at = threadIdx.x; at < SORT_DIGITS * SORT_BINS; at += blockDim.x) {
        const u32 keys_of_bin = counts[at / SORT_BINS][at % SORT_BINS];
        if (keys_of_bin != 0) atomicAdd(args.counts + at, keys_of_bin);
    }
}
