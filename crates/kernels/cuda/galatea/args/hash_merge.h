// Arguments of the kernel hash_merge.
#pragma once

#include "galatea/hash_table.cuh"
#include "galatea/page_chain.cuh"

namespace galatea {

struct HashMergeArguments {
    GroupTableView table;
    PageChainsView chains;  // rows: key words, then accumulator words
    const u8* merges;       // by accumulator word: its Merge, or MERGE_HIGH
    const u64* texts;       // the strings that accumulators hold positions of; null: none do
    u64* pages;             // receives the number of pages released
};

}  // namespace galatea
