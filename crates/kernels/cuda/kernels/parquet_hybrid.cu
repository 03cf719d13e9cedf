// Grid scope. Decodes dictionary indices, and booleans of encoding RLE, a block per page.
#include "galatea/args/parquet_decode.h"
#include "galatea/parquet/form.cuh"
#include "galatea/parquet/hybrid.cuh"

using namespace galatea;

extern "C" __global__ void parquet_hybrid(const __grid_constant__ ParquetDecodeArguments args) {
    __shared__ HybridRuns runs;
    for (u32 task = blockIdx.x; task < args.count; task += gridDim.x) {
        const u32 number = u32(args.tasks[task] >> 32);
        const ParquetPage page = args.pages[number];
        ParquetPageState& state = args.states[number];
        __shared__ bool skipped;
        __syncthreads();
        if (threadIdx.x == 0) skipped = state.failure != PARQUET_INTACT || state.values == 0;
        __syncthreads();
        if (skipped) continue;
        const u32 values = state.values;
        const bool indices = page.encoding == PARQUET_DICTIONARY;
        // Indices follow a byte with their width; booleans follow 4 bytes with the length of their runs.
        const u32 header = indices ? 1 : 4;
        PageBytes in{page.body, state.values_at, page.body_bytes};
        if (header > in.left()) {
            if (threadIdx.x == 0) fail(state, PARQUET_VALUES_END, in.at, header, in.left());
            continue;
        }
        u32 width = 1;
        in.at += header;
        if (indices) {
            width = in.bytes[in.at - 1];
            if (width > 32) {
                if (threadIdx.x == 0) fail(state, PARQUET_INDEX_WIDTH, in.at, width, 32);
                continue;
            }
        } else {
            const u32 length = load_word(in.bytes + in.at - 4);
            if (length > in.left()) {
                if (threadIdx.x == 0) fail(state, PARQUET_VALUES_END, in.at, length, in.left());
                continue;
            }
            in.end = in.at + length;
        }
        const u32 decoded = decode_hybrid(runs, in, width, values, [&](u32, u32 value, bool inside, u32 bits, u32) {
            if (!inside) return;
            if (!indices) {
                if (bits > 1) fail(state, PARQUET_BOOLEAN_RUN, in.at, bits, 1);
                static_cast<u8*>(args.values)[page.slot + value] = bits & 1;
            } else if (bits >= page.dictionary_values) {
                fail(state, PARQUET_INDEX, in.at, bits, page.dictionary_values);
            } else {
                args.indices[page.slot + value] = bits;
            }
        });
        if (decoded < values && threadIdx.x == 0) fail(state, PARQUET_RUNS_END, in.at, decoded, values);
    }
}
