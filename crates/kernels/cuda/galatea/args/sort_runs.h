// Arguments of the kernel sort_runs.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct SortRunsArguments {
    const u64* keys;  // in the order of their bits from `shift` on
    u32* ids;         // their ids, which are sorted by whole keys; or null
    u64* sorted;      // a copy of the keys, which is sorted; or null
    u32* unsorted;    // set to 1 if a run is too long
    u64 rows;         // keys
    u64 shift;        // the lowest bit that the keys are already sorted by
};

}  // namespace galatea
