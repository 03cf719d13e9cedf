// Grid scope. Copies the rows of page chains to contiguous memory, column by column, in the order of chains.
// A block takes whole chains; the rows of the previous chains give its position, so no counting pass is
// needed and the order is deterministic.
#include "galatea/args/heap_gather.h"

using namespace galatea;

extern "C" __global__ void heap_gather(const HeapGatherArguments args) {
    __shared__ Scratch<u64> scratch;
    const PageChainsView& chains = args.chains;
    for (u32 chain = blockIdx.x; chain < chains.count; chain += gridDim.x) {
        u64 place = 0;
        for (u32 i = threadIdx.x; i < chain; i += blockDim.x) place += chains.chains[i].rows;
        place = block_reduce(place, Sum{}, scratch);
        for (u64 page = chains.chains[chain].first; page != NO_PAGE;) {
            const PageHeader header = *page_header(chains.heap, page);
            for (u32 column = 0; column < chains.words; ++column) {
                const u64* from = page_column(chains, page, column);
                u64* to = args.columns + column * args.room + place;
                for (u64 row = threadIdx.x; row < header.rows && place + row < args.room; row += blockDim.x) to[row] = from[row];
            }
            if (args.release != 0) {
                __syncthreads();
                if (threadIdx.x == 0) heap_give_one(chains.heap, page);
            }
            place += header.rows;
            page = header.next;
        }
        if (threadIdx.x == 0 && chain == chains.count - 1) *args.rows = place;
    }
}
