// Arguments of the kernel text_sort.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct TextSortArguments {
    const u64* memory; // the texts (interned.cuh)
    const u64* from;   // places of texts, in runs
    u64* to;           // the same in longer runs
    u64 count;         // their number
    u64 width;         // texts of a run; 0: they are in none
};

}  // namespace galatea
