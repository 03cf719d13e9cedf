// Grid scope. Decompresses pages, a block per page.
#include "galatea/args/parquet_decode.h"
#include "galatea/parquet/decompress.cuh"

using namespace galatea;

namespace {

// Reads the size at the start of a Snappy page. Returns whether it is that of the page.
GALATEA_INLINE bool read_size(PageBytes& in, Output& out) {
    u64 size;
    if (!read_varint(in, size)) {
        if (threadIdx.x == 0) out.ends_early(in);
        return false;
    }
    if (size != out.size) {
        if (threadIdx.x == 0) fail(out.state, PARQUET_SIZE, in.at, size, out.size);
        return false;
    }
    return true;
}

}  // namespace

// Without the number of resident blocks, the compiler takes 119 registers: 2 blocks.
extern "C" __global__ void __launch_bounds__(DECOMPRESS_THREADS, 4)
    parquet_decompress(const __grid_constant__ ParquetDecodeArguments args) {
    __shared__ DecompressMemory memory;
    for (u64 task = blockIdx.x; task < args.count; task += gridDim.x) {
        const u32 number = u32(args.tasks[task] >> 32);
        const ParquetPage page = args.pages[number];
        ParquetPageState& state = args.states[number];
        const u32 levels = page.level_bytes;
        if (levels > page.stored_bytes || levels > page.body_bytes) {
            if (threadIdx.x == 0) fail(state, PARQUET_LEVEL_BYTES, 0, levels, page.stored_bytes);
            continue;
        }
        for (u32 byte = threadIdx.x; byte < levels; byte += DECOMPRESS_THREADS) page.body[byte] = page.stored[byte];
        Output out{page.body + levels, 0, page.body_bytes - levels, state};
        // A page without values may have no compressed bytes at all.
        if (out.size == 0) continue;
        PageBytes in{page.stored, levels, page.stored_bytes};
        // The shared memory is in use until all threads have left the page before.
        __syncthreads();
        if (page.codec == PARQUET_SNAPPY) {
            if (read_size(in, out)) decompress<Snappy>(memory, in, out);
        } else {
            decompress<Lz4>(memory, in, out);
        }
    }
}
