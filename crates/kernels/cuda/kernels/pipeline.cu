// Grid scope. The smallest pipeline: counts the rows of its morsels in counters[2]. Generated pipelines have
// the same structure, entry point and headers; the engine generates the code for a row.
#include "galatea/aggregate.cuh"
#include "galatea/hash_table.cuh"
#include "galatea/lookup_table.cuh"
#include "galatea/morsel.cuh"

using namespace galatea;

extern "C" __global__ void pipeline(const PipelineArguments args) {
    u32 passed = 0;
    ChunkCursor cursor(args);
    for (u32 morsel = args.first_morsel + blockIdx.x; morsel < args.end_morsel; morsel += gridDim.x) {
        cursor.seek(morsel);
        const u32 begin = (morsel - cursor.first_morsel()) * args.morsel_rows;
        const u32 rows = cursor.rows();
        const u32 end = rows - begin < args.morsel_rows ? rows : begin + args.morsel_rows;
        for (u32 row = begin + threadIdx.x; row < end; row += blockDim.x) ++passed;
    }
    passed = __reduce_add_sync(0xffffffffu, passed);
    if ((threadIdx.x & 31u) == 0 && passed != 0) atomicAdd(args.counters + 2, u64(passed));
}
