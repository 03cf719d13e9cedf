// Arguments of the kernel radix_materialise.
#pragma once

#include "galatea/radix/tuples.cuh"

namespace galatea {

struct RadixMaterialiseArguments {
    const u64* index;    // record numbers; elements with all bits set are skipped
    const u64* columns;  // addresses of columns, in any memory
    u64* sums;           // added to: values of all columns of the records; number of records
    u64 count;           // elements of the index
    u32 width;           // number of columns
    u32 unused;
};

}  // namespace galatea
