// Grid scope. Decodes integers of encoding DELTA_BINARY_PACKED, a warp per page.
#include "galatea/args/parquet_decode.h"
#include "galatea/parquet/delta.cuh"
#include "galatea/parquet/form.cuh"

using namespace galatea;

extern "C" __global__ void parquet_delta(const __grid_constant__ ParquetDecodeArguments args) {
    for (u64 task = grid_thread() / WARP; task < args.count; task += grid_threads() / WARP) {
        const u32 number = u32(args.tasks[task] >> 32);
        const ParquetPage page = args.pages[number];
        ParquetPageState& state = args.states[number];
        const bool intact = state.failure == PARQUET_INTACT;
        __syncwarp();
        if (!intact || state.values == 0) continue;
        PageBytes in{page.body, state.values_at, page.body_bytes};
        u64* const values = static_cast<u64*>(args.values) + page.slot;
        decode_delta<true>(in, state.values, state, [&](u32 value, u64 integer, bool inside) {
            if (!inside) return;
            values[value] = args.form == PARQUET_SIGNED_32     ? u64(i64(i32(u32(integer))))
                            : args.form == PARQUET_UNSIGNED_32 ? u64(u32(integer))
                                                               : integer;
        });
    }
}
