// Grid scope. Writes the used slots of a group hash table next to each other, in no particular order.
#include "galatea/args/hash_collect.h"
#include "galatea/thread.cuh"

using namespace galatea;

extern "C" __global__ void hash_collect(HashCollectArguments args) {
    for (u64 at = grid_thread(); at < args.capacity; at += grid_threads()) {
        const u64* slot = args.slots + at * args.slot_words;
        if (slot[0] == 0) continue;
        const u64 place = atomicAdd(args.used, 1ull);
        if (place >= args.room) continue;
        u64* target = args.groups + place * args.slot_words;
        for (u32 i = 0; i < args.slot_words; ++i) target[i] = slot[i];
    }
}
