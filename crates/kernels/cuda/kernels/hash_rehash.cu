// Grid scope. Moves every used slot of a group hash table to a larger one. Keys are distinct, so a claimed slot is
// never compared.
#include "galatea/args/hash_rehash.h"
#include "galatea/hash_table.cuh"
#include "galatea/thread.cuh"

using namespace galatea;

extern "C" __global__ void hash_rehash(HashRehashArguments args) {
    const u64 mask = args.to_capacity - 1;
    for (u64 at = grid_thread(); at < args.from_capacity; at += grid_threads()) {
        const u64* slot = args.from + at * args.slot_words;
        if (slot[0] == 0) continue;
        const u64* key = slot + args.has_state;
        u64 hash = hash_word(key[0]);
        for (u32 i = 1; i < args.key_words; ++i) hash = hash_next(hash, key[i], i);
        u64 home = args.collide != 0 ? 0 : hash & mask;
        while (atomicCAS(args.to + home * args.slot_words, 0ull, slot[0]) != 0) home = (home + 1) & mask;
        u64* target = args.to + home * args.slot_words;
        for (u32 i = 1; i < args.slot_words; ++i) target[i] = slot[i];
    }
}
