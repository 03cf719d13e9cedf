// Arguments of the kernel hash_rehash. A slot is `slot_words` words and empty when the first is zero (hash_table.cuh).
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct HashRehashArguments {
    const u64* from;
    u64* to;            // cleared
    u64 from_capacity;  // slots
    u64 to_capacity;    // slots, a power of two, more than `from` has used
    u32 slot_words;
    u32 key_words;
    u32 has_state;      // 1 when a state word precedes the key words
    u32 collide;        // 1 when the pipeline's hashes are all zero, for tests
};

}  // namespace galatea
