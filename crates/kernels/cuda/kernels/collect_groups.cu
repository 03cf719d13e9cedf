// Grid scope. Writes the groups of a table by column, in no particular order: the used slots of a hash table,
// or the entries of a dense one that have a row.
#include "galatea/args/collect_groups.h"
#include "galatea/thread.cuh"

using namespace galatea;

extern "C" __global__ void collect_groups(const __grid_constant__ CollectGroupsArguments args) {
    for (u64 at = grid_thread(); at < args.entries; at += grid_threads()) {
        const u64* entry = args.table + at * args.words;
        if (entry[args.marker] == 0) continue;
        const u64 place = atomicAdd(args.used, 1ull);
        if (place >= args.room) continue;
        u64* column = args.groups + place;
        if (args.numbered != 0) {
            *column = at;
            column += args.room;
        }
        for (u32 i = 0; i < args.words; ++i, column += args.room) *column = entry[i];
    }
}
