// Arguments of the kernel collect_groups.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct CollectGroupsArguments {
    const u64* table;   // [entry][word]
    u64* groups;        // [word][position], after the numbers of the entries if `numbered`
    u64* used;          // starts at zero, receives the number of groups, also if not all fit
    u64 entries;        // of the table
    u64 room;           // capacity of a column of `groups`
    u32 words;          // of an entry
    u32 marker;         // the word that is 0 in an entry that is not a group
    u32 numbered;       // 1: the first column is the number of the entry
    u32 padding;
};

}  // namespace galatea
