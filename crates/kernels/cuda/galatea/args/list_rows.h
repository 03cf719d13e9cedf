// Arguments of the kernel list_rows.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct ListRowsArguments {
    const u32* slots;  // by row: the index of its key, 0xffffffff for none
    const u32* ranks;  // by row: its rank among the rows of its key
    const u32* starts; // by index: start of the rows of the key
    u32* lists;        // the rows of each key, contiguous
    u64 count;         // rows
};

}  // namespace galatea
