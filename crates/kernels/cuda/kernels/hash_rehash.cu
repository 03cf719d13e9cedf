// Grid scope. Moves every used slot of a group hash table to a larger one, and counts its groups.
#include "galatea/args/hash_rehash.h"
#include "galatea/thread.cuh"

using namespace galatea;

extern "C" __global__ void hash_rehash(HashRehashArguments args) {
    const GroupTable to = group_table(args.to);
    u32 inserted = 0;
    for (u64 at = grid_thread(); at < args.from_capacity; at += grid_threads()) {
        const u64* slot = args.from + at * to.slot_words;
        if (slot[0] == 0) continue;
        const u64* words = slot + to.head();
        u64* target = to.find_or_insert(words - to.key_words, inserted);
        for (u32 i = 0; i < to.slot_words - to.head(); ++i) target[i] = words[i];
    }
    to.count(inserted);
}
