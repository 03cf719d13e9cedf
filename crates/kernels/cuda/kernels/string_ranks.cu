// Grid scope. Stores, by position of a string, its rank among all strings, which are in order.
#include "galatea/args/string_ranks.h"
#include "galatea/thread.cuh"

using namespace galatea;

extern "C" __global__ void string_ranks(const __grid_constant__ StringRanksArguments args) {
    for (u64 at = grid_thread(); at < args.count; at += grid_threads()) args.ranks[args.places[at]] = u32(at + 1);
}
