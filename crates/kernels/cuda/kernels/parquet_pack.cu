// Grid scope. Converts integers and dictionary indices of rows to the codes of a column, a thread per row.
#include "galatea/args/parquet_pack.h"
#include "galatea/thread.cuh"

using namespace galatea;

extern "C" __global__ void parquet_pack(const __grid_constant__ ParquetPackArguments args) {
    for (u64 row = grid_thread(); row < args.rows; row += grid_threads()) {
        const bool valid = args.validity == nullptr || args.validity[row / 32] >> (row % 32) & 1;
        u64 code = 0;
        if (valid) {
            code = args.values != nullptr
                       ? (args.values[row * args.words] - args.base) / args.factor
                       : args.map[args.indices[row]];
        }
        switch (args.width) {
            case 1: args.codes[row] = u8(code); break;
            case 2: reinterpret_cast<u16*>(args.codes)[row] = u16(code); break;
            case 4: reinterpret_cast<u32*>(args.codes)[row] = u32(code); break;
            default: reinterpret_cast<u64*>(args.codes)[row] = code; break;
        }
    }
}
