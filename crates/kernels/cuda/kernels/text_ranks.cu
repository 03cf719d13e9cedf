// Grid scope. By the place of a text its rank among all of them, which are in order.
#include "galatea/args/text_ranks.h"
#include "galatea/thread.cuh"

using namespace galatea;

extern "C" __global__ void text_ranks(const __grid_constant__ TextRanksArguments args) {
    for (u64 at = grid_thread(); at < args.count; at += grid_threads()) args.ranks[args.places[at]] = u32(at + 1);
}
