// Grid scope. Late materialisation: loads values of columns, in device or host memory, by the record numbers
// of a join index, and sums them. A thread has loads of several records and columns in flight.
#include "galatea/args/radix_materialise.h"

using namespace galatea;

extern "C" __global__ void __launch_bounds__(256) radix_materialise(const RadixMaterialiseArguments args) {
    constexpr u32 TOGETHER = 4;
    constexpr u32 COLUMNS = 4;
    constexpr u64 NONE = ~0ull;
    u64 sum = 0;
    u64 records = 0;
    for (u64 first = grid_thread(); first < args.count; first += TOGETHER * grid_threads()) {
        u64 number[TOGETHER];
#pragma unroll
        for (u32 t = 0; t < TOGETHER; ++t) {
            const u64 at = first + t * grid_threads();
            number[t] = at < args.count ? args.index[at] : NONE;
            records += number[t] != NONE;
        }
        for (u32 column = 0; column < args.width; column += COLUMNS) {
            u64 value[COLUMNS][TOGETHER];
#pragma unroll
            for (u32 c = 0; c < COLUMNS; ++c) {
                const bool present = column + c < args.width;
                const u64* const from = reinterpret_cast<const u64*>(present ? args.columns[column + c] : 0);
#pragma unroll
                for (u32 t = 0; t < TOGETHER; ++t) {
                    value[c][t] = 0;
                    if (present && number[t] != NONE) value[c][t] = from[number[t]];
                }
            }
#pragma unroll
            for (u32 c = 0; c < COLUMNS; ++c) {
#pragma unroll
                for (u32 t = 0; t < TOGETHER; ++t) sum += value[c][t];
            }
        }
    }
    sum = warp_reduce(sum, Sum{});
    records = warp_reduce(records, Sum{});
    if (lane() == 0 && records != 0) {
        atomicAdd(args.sums, sum);
        atomicAdd(args.sums + 1, records);
    }
}
