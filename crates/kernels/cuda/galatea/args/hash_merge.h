// Arguments of the kernel hash_merge.
#pragma once

#include "galatea/hash_table.cuh"
#include "galatea/page_chain.cuh"

namespace galatea {

struct HashMergeArguments {
    GroupTableView table;
    PageChainsView chains;  // rows: key words, then accumulator words
    const u8* merges;       // by accumulator word: how it merges (Merge), or MERGE_HIGH
    const u64* texts;       // the texts whose places are accumulators; null where there are none
    u64* pages;             // counts the pages given back
};

}  // namespace galatea
