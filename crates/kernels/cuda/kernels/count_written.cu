// Grid scope. Counts the entries of an array that differ from the fill value.
#include "galatea/args/count_written.h"
#include "galatea/thread.cuh"

using namespace galatea;

// Number of entries of `width` bytes among eight bytes that are not 0.
static GALATEA_INLINE u32 other_than_zero(u64 bytes, u32 width) {
    // ORs all bits of an entry into its lowest one; bits shifted in from its neighbour stay above.
    u64 lowest = 1;
    for (u32 shift = 8 * width; shift < 64; shift *= 2) lowest |= lowest << shift;
    for (u32 shift = 4 * width; shift > 0; shift /= 2) bytes |= bytes >> shift & lowest * ((1ull << shift) - 1);
    return __popcll(bytes & lowest);
}

extern "C" __global__ void count_written(const __grid_constant__ CountWrittenArguments args) {
    const u32 width = u32(args.width);
    const u64 unwritten = args.byte * 0x0101010101010101ull;
    const u64* const words = reinterpret_cast<const u64*>(args.entries);
    const u64 whole = args.bytes / 8;
    u64 written = 0;
    for (u64 at = grid_thread(); at < whole; at += grid_threads()) {
        written += other_than_zero(words[at] ^ unwritten, width);
    }
    if (grid_thread() == 0 && args.bytes % 8 != 0) {
        u64 rest = 0;
        for (u64 at = 8 * whole; at < args.bytes; ++at) {
            rest |= u64(args.entries[at] ^ args.byte) << 8 * (at % 8);
        }
        written += other_than_zero(rest, width);
    }
    for (int delta = 16; delta > 0; delta >>= 1) written += __shfl_down_sync(0xffffffffu, written, delta);
    if ((threadIdx.x & 31u) == 0 && written != 0) atomicAdd(args.written, written);
}
