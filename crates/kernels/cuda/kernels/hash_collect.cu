// Grid scope. Writes the used slots of a group hash table by column, in no particular order of slots.
#include "galatea/args/hash_collect.h"
#include "galatea/thread.cuh"

using namespace galatea;

extern "C" __global__ void hash_collect(HashCollectArguments args) {
    for (u64 at = grid_thread(); at < args.capacity; at += grid_threads()) {
        const u64* slot = args.slots + at * args.slot_words;
        if (slot[0] == 0) continue;
        const u64 place = atomicAdd(args.used, 1ull);
        if (place >= args.room) continue;
        for (u32 i = 0; i < args.slot_words; ++i) args.groups[i * args.room + place] = slot[i];
    }
}
