// Growing and reading the group hash table of a pipeline (hash_table.cuh).
#include "galatea/prelude.cuh"
#include "galatea/args/hash_table.h"
#include "galatea/hash_table.cuh"

using namespace galatea;

// Grid scope. Moves every used slot to the larger table. Keys are distinct, so a claimed slot is never compared.
extern "C" __global__ void rehash(const HashTableArgs args) {
    const u64 mask = args.to_capacity - 1;
    for (u64 at = u64(blockIdx.x) * blockDim.x + threadIdx.x; at < args.from_capacity; at += u64(gridDim.x) * blockDim.x) {
        const unsigned long long* slot = args.from + at * args.slot_words;
        if (slot[0] == 0) continue;
        const unsigned long long* key = slot + args.has_state;
        u64 hash = hash_word(key[0]);
        for (u32 i = 1; i < args.key_words; ++i) hash = hash_next(hash, key[i], i);
        u64 home = hash & mask;
        while (atomicCAS(args.to + home * args.slot_words, 0ull, slot[0]) != 0) home = (home + 1) & mask;
        unsigned long long* target = args.to + home * args.slot_words;
        for (u32 i = 1; i < args.slot_words; ++i) target[i] = slot[i];
    }
}

// Grid scope. Writes used slots next to each other, in no particular order.
extern "C" __global__ void collect(const HashTableArgs args) {
    for (u64 at = u64(blockIdx.x) * blockDim.x + threadIdx.x; at < args.from_capacity; at += u64(gridDim.x) * blockDim.x) {
        const unsigned long long* slot = args.from + at * args.slot_words;
        if (slot[0] == 0) continue;
        const u64 place = atomicAdd(args.written, 1ull);
        if (place >= args.to_capacity) continue;
        unsigned long long* target = args.to + place * args.slot_words;
        for (u32 i = 0; i < args.slot_words; ++i) target[i] = slot[i];
    }
}
