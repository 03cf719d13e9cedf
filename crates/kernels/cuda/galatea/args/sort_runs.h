// Arguments of the kernel sort_runs.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct SortRunsArguments {
    const u64* keys;  // in the order of their bits from `shift` on
    u32* ids;         // theirs, which are brought into the order of whole keys; or null
    u64* sorted;      // a copy of the keys, which is brought into that order; or null
    u32* unsorted;    // set to 1 where a run is too long
    u64 rows;         // keys
    u64 shift;        // the lowest bit by which keys are in order
};

}  // namespace galatea
