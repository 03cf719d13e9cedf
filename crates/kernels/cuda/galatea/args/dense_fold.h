// Arguments of the kernel dense_fold.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct DenseFoldArguments {
    u64* groups;        // [copy][group][word]
    const u8* merges;   // by word: its Merge, or MERGE_HIGH
    u64 count;          // groups
    u32 words;          // of a group
    u32 copies;         // of each group, at least one
};

}  // namespace galatea
