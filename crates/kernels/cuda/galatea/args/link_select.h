// Arguments of the kernel link_select.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct LinkSelectArguments {
    const u32* columns;  // three columns of `rows` values, one after another: key, left, right; 16-byte aligned
    u64* sum;            // the sum of left * right over the selected rows is added to it
    u64 rows;
    u64 threshold;       // a row is selected if its key is below it
    u32 predicated;      // 1: all columns are loaded for every row; 0: the others only if the key qualifies
    u32 unused;
};

}  // namespace galatea
