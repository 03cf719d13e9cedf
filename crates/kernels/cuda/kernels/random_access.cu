// Grid scope. Reads or writes words of a table at random positions, with eight accesses of each thread in
// flight. Access i is to position hash(seed + i); the value written there is the low bits of that position.
#include "galatea/args/random_access.h"
#include "galatea/warp.cuh"

using namespace galatea;

GALATEA_INLINE u64 place_of(const RandomAccessArguments& args, u64 access) {
    return (mix64(args.seed + access) >> 32) * args.words >> 32;
}

template <typename Word> GALATEA_INLINE u64 access_words(const RandomAccessArguments& args) {
    constexpr u32 TOGETHER = 8;
    Word* const table = reinterpret_cast<Word*>(args.table);
    const u64 threads = grid_threads();
    u64 sum = 0;
    for (u64 first = grid_thread(); first < args.accesses; first += TOGETHER * threads) {
        Word values[TOGETHER];
#pragma unroll
        for (u32 t = 0; t < TOGETHER; ++t) {
            const u64 access = first + t * threads;
            const bool inside = access < args.accesses;
            const u64 place = place_of(args, access);
            values[t] = 0;
            if (!inside) continue;
            if (args.writes != 0) {
                table[place] = Word(place);
            } else {
                values[t] = table[place];
            }
        }
#pragma unroll
        for (u32 t = 0; t < TOGETHER; ++t) sum += values[t];
    }
    return sum;
}

extern "C" __global__ void random_access(const __grid_constant__ RandomAccessArguments args) {
    u64 sum = args.width == 4 ? access_words<u32>(args) : access_words<u64>(args);
    if (args.writes != 0) return;
    sum = warp_reduce(sum, Sum{});
    if (lane() == 0 && sum != 0) atomicAdd(args.sum, sum);
}
