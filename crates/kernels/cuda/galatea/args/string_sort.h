// Arguments of the kernel string_sort.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct StringSortArguments {
    const u64* memory; // the strings (interned.cuh)
    const u64* from;   // positions of strings, in sorted runs
    u64* to;           // receives the same in longer runs
    u64 count;         // their number
    u64 width;         // strings of a run; 0: unsorted
};

}  // namespace galatea
