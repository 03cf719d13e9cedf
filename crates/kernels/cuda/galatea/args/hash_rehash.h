// Arguments of the kernel hash_rehash.
#pragma once

#include "galatea/hash_table.cuh"

namespace galatea {

struct HashRehashArguments {
    GroupTableView to;  // cleared, its count zero
    const u64* from;    // slots of the same shape
    u64 from_capacity;
};

}  // namespace galatea
