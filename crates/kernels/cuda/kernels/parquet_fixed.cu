// Grid scope. Decodes values at computable byte positions: PLAIN values of a fixed size, booleans,
// BYTE_STREAM_SPLIT, and numbers that parquet_strings has located. A block decodes PARQUET_TASK_VALUES
// values.
#include "galatea/args/parquet_decode.h"
#include "galatea/parquet/form.cuh"

using namespace galatea;

namespace {

// Converts a located string.
GALATEA_INLINE void convert(const ParquetDecodeArguments& args, ParquetPageState& state, u64 slot) {
    const u32 length = args.lengths[slot];
    const u32 limit = args.value_bytes != 0 ? args.value_bytes : args.form == PARQUET_BIG_ENDIAN_64 ? 8 : 16;
    if (length > limit || (args.value_bytes != 0 && length != limit)) {
        fail(state, PARQUET_VALUE_LENGTH, 0, length, limit);
        return;
    }
    store_form(args.form, args.unit, args.starts[slot], 1, length, args.values, slot);
}

}  // namespace

extern "C" __global__ void parquet_fixed(const __grid_constant__ ParquetDecodeArguments args) {
    for (u32 task = blockIdx.x; task < args.count; task += gridDim.x) {
        const u32 number = u32(args.tasks[task] >> 32);
        const u32 first = u32(args.tasks[task]);
        const ParquetPage page = args.pages[number];
        ParquetPageState& state = args.states[number];
        // Threads may see a violation that another one has just recorded: then some skip the page earlier.
        if (state.failure != PARQUET_INTACT) continue;
        const u32 values = state.values;
        const u32 end = values - first < PARQUET_TASK_VALUES || values < first ? values : first + PARQUET_TASK_VALUES;
        if (args.phase == 1) {
            for (u32 value = first + threadIdx.x; value < end; value += blockDim.x) {
                convert(args, state, page.slot + value);
            }
            continue;
        }
        const u32 at = state.values_at;
        const u8* const bytes = page.body + at;
        const u64 left = page.body_bytes - at;
        const bool bits = args.form == PARQUET_BOOLEAN;
        const u64 needed = bits ? (u64(values) + 7) / 8 : u64(values) * args.value_bytes;
        if (needed > left) {
            fail(state, PARQUET_VALUES_END, at, needed, left);
            continue;
        }
        const bool split = page.encoding == PARQUET_BYTE_STREAM_SPLIT;
        const u64 stride = split ? left / args.value_bytes : 1;
        for (u32 value = first + threadIdx.x; value < end; value += blockDim.x) {
            if (bits) {
                static_cast<u8*>(args.values)[page.slot + value] = bytes[value / 8] >> (value % 8) & 1;
                continue;
            }
            const u8* const source = split ? bytes + value : bytes + u64(value) * args.value_bytes;
            store_form(args.form, args.unit, source, stride, args.value_bytes, args.values, page.slot + value);
        }
    }
}
