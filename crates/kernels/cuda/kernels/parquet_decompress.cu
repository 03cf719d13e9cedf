// Grid scope. Decompresses pages, a warp per page.
#include "galatea/args/parquet_decode.h"
#include "galatea/parquet/sequences.cuh"

using namespace galatea;

namespace {

GALATEA_INLINE bool snappy(PageBytes in, Output& out) {
    u64 size;
    if (!read_varint(in, size)) return out.ends_early(in);
    if (size != out.size) {
        fail(out.state, PARQUET_SIZE, in.at, size, out.size);
        return false;
    }
    return decompress<Snappy>(in, out);
}

}  // namespace

extern "C" __global__ void parquet_decompress(const __grid_constant__ ParquetDecodeArguments args) {
    for (u64 task = grid_thread() / WARP; task < args.count; task += grid_threads() / WARP) {
        const u32 number = u32(args.tasks[task] >> 32);
        const ParquetPage page = args.pages[number];
        ParquetPageState& state = args.states[number];
        const u32 levels = page.level_bytes;
        if (levels > page.stored_bytes || levels > page.body_bytes) {
            fail(state, PARQUET_LEVEL_BYTES, 0, levels, page.stored_bytes);
            continue;
        }
        for (u32 byte = lane(); byte < levels; byte += WARP) page.body[byte] = page.stored[byte];
        Output out{page.body + levels, 0, page.body_bytes - levels, state};
        // A page without values may have no compressed bytes at all.
        if (out.size == 0) continue;
        const PageBytes in{page.stored, levels, page.stored_bytes};
        if (page.codec == PARQUET_SNAPPY) {
            snappy(in, out);
        } else {
            decompress<Lz4>(in, out);
        }
    }
}
