// Arguments of the kernels that maintain a group hash table between launches of a pipeline.
//
// Host twins: galatea_kernels::hash_table.
#pragma once

namespace galatea {

struct HashTableArgs {
    // The table read: `capacity` slots of `slot_words` words. A slot is empty when its first word is zero.
    const unsigned long long* from;
    // Rehash: the larger, cleared table. Collect: `limit` slots, filled densely.
    unsigned long long* to;
    // Collect: slots written so far, starts at zero.
    unsigned long long* written;
    unsigned long long from_capacity;
    // Rehash: slots of `to`, a power of two. Collect: slots `to` has room for.
    unsigned long long to_capacity;
    unsigned int slot_words;
    unsigned int key_words;
    // 1 when a state word precedes the key words.
    unsigned int has_state;
    unsigned int reserved;
};

}  // namespace galatea
