// Arguments of the kernel list_rows.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct ListRowsArguments {
    const u32* slots;  // by row: the index of its key, 0xffffffff for none
    const u32* ranks;  // by row: its place among the rows of its key
    const u32* starts; // by index: where the list of the key starts
    u32* lists;        // the rows of each key, next to each other
    u64 count;         // rows
};

}  // namespace galatea
