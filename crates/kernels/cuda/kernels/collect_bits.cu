// Grid scope. Collects the indices of the bits of a bitmap that are 1, or 0.
#include "galatea/args/collect_bits.h"
#include "galatea/block.cuh"

using namespace galatea;

extern "C" __global__ void collect_bits(const __grid_constant__ CollectBitsArguments args) {
    __shared__ Scratch<u32> scratch;
    __shared__ u64 first;
    const u64 words = (args.bits + 31) / 32;
    const u64 step = u64(gridDim.x) * blockDim.x;
    // Whole blocks iterate, because all threads take part in the reservation.
    for (u64 from = u64(blockIdx.x) * blockDim.x; from < words; from += step) {
        const u64 at = from + threadIdx.x;
        u32 word = 0;
        if (at < words) {
            word = args.wanted != 0 ? args.words[at] : ~args.words[at];
            const u64 left = args.bits - at * 32;
            if (left < 32) word &= (1u << left) - 1u;
        }
        u64 to = block_append(args.found, __popc(word), scratch, first);
        for (; word != 0; word &= word - 1) args.numbers[to++] = u32(at * 32) + u32(__ffs(int(word)) - 1);
    }
}
