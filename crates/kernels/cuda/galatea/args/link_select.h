// Arguments of the kernel link_select.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct LinkSelectArguments {
    const u32* columns;  // three columns of `rows` values, one after another: key, left, right; 16-byte aligned
    u64* sum;            // receives the sum of left * right of the rows that are selected, added
    u64 rows;
    u64 threshold;       // rows are selected whose key is below it
    u32 predicated;      // 1: all columns are loaded for every row; 0: the others after the key has decided
    u32 unused;
};

}  // namespace galatea
