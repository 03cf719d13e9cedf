// Grid scope. Merges partial groups, rows of page chains, into a group hash table, and releases their pages.
// A block takes whole chains and leaves them empty, except for the morsel at which their writers resume.
#include "galatea/aggregate.cuh"
#include "galatea/args/hash_merge.h"
#include "galatea/interned.cuh"

using namespace galatea;

extern "C" __global__ void hash_merge(const __grid_constant__ HashMergeArguments args) {
    const PageChainsView& chains = args.chains;
    const GroupTable table = group_table(args.table);
    const u32 words = table.slot_words - table.head();
    u32 inserted = 0;
    for (u32 at = blockIdx.x; at < chains.count; at += gridDim.x) {
        PageChain& chain = chains.chains[at];
        u64 pages = 0;
        for (u64 page = chain.first; page != NO_PAGE; ++pages) {
            const PageHeader header = *page_header(chains.heap, page);
            const u64* rows = page_column(chains, page, 0);
            for (u64 row = threadIdx.x; row < header.rows; row += blockDim.x) {
                const u64* key = rows + row;
                u64* group = table.find_or_insert(key, inserted, chains.page_rows);
                const u64* partial = key + u64(table.key_words) * chains.page_rows;
                merge_group(group, partial, chains.page_rows, words, args.merges);
                if (args.texts == nullptr) continue;
                for (u32 w = 0; w < words; ++w) {
                    const u64 place = partial[w * chains.page_rows];
                    if (Merge(args.merges[w]) == Merge::LeastString) merge_extreme<true>(group + w, args.texts, place);
                    if (Merge(args.merges[w]) == Merge::GreatestString) merge_extreme<false>(group + w, args.texts, place);
                }
            }
            __syncthreads();
            if (threadIdx.x == 0) heap_give_one(chains.heap, page);
            page = header.next;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            chain.first = chain.last = NO_PAGE;
            chain.rows = 0;
            if (pages != 0) atomicAdd(args.pages, pages);
        }
    }
    table.count(inserted);
}
