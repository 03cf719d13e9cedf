// Arguments of the kernel hash_collect. A slot is `slot_words` words and empty when the first is zero
// (hash_table.cuh).
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct HashCollectArguments {
    const u64* slots;
    u64* groups;   // [slot word][place]
    u64* used;     // starts at zero, receives the number of used slots, also when not all fit
    u64 capacity;  // slots of the table
    u64 room;      // places of a column of `groups`
    u64 slot_words;
};

}  // namespace galatea
