// Grid scope. Unpacks the codes of a chunk's columns: a warp loads a block of them into shared memory and
// stores its codes, each lane 16 bytes at a time.
#include "galatea/args/unpack_codes.h"
#include "galatea/warp.cuh"

using namespace galatea;

constexpr u32 THREADS = 256;
constexpr u32 UNIT_BITS = 128;
// A block's codes of 32 bits, and the unit that holds the second word of its last code.
constexpr u32 STAGED_UNITS = PACKED_BLOCK_CODES * 32 / UNIT_BITS + 1;

// Entry of the directory.
struct alignas(16) PackedBlock {
    u64 least;
    u32 place;  // units of 16 bytes from the beginning
    u32 bits;
};

// Codes that one lane stores at once.
template <typename Code> struct alignas(16) CodeVector {
    Code codes[16 / sizeof(Code)];
};

template <typename Code>
static GALATEA_INLINE void store_codes(const u32* words, PackedBlock block, u32 count, Code* out) {
    constexpr u32 TOGETHER = 16 / sizeof(Code);
    const u64 mask = (u64(1) << block.bits) - 1;
    for (u32 first = lane() * TOGETHER; first < count; first += WARP * TOGETHER) {
        CodeVector<Code> vector;
#pragma unroll
        for (u32 k = 0; k < TOGETHER; ++k) {
            // After the last row, the last code is repeated.
            const u32 code = first + k < count ? first + k : count - 1;
            const u32 bit = code * block.bits;
            const u64 pair = u64(words[bit / 32]) | u64(words[bit / 32 + 1]) << 32;
            vector.codes[k] = Code(block.least + (pair >> (bit % 32) & mask));
        }
        *reinterpret_cast<CodeVector<Code>*>(out + first) = vector;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) unpack_codes(const __grid_constant__ UnpackCodesArguments args) {
    __shared__ uint4 staged[THREADS / WARP][STAGED_UNITS];
    const u64 blocks = (args.rows + PACKED_BLOCK_CODES - 1) / PACKED_BLOCK_CODES;
    uint4* const units = staged[warp()];
    for (u64 at = grid_thread() / WARP; at < blocks * args.columns; at += grid_threads() / WARP) {
        const u32 column = u32(at / blocks);
        const u64 first = at % blocks * PACKED_BLOCK_CODES;
        const u8* const packed = args.packed[column];
        const PackedBlock block = reinterpret_cast<const PackedBlock*>(packed)[at % blocks];
        const u32 count = args.rows - first < PACKED_BLOCK_CODES ? u32(args.rows - first) : PACKED_BLOCK_CODES;
        const u32 used = (count * block.bits + UNIT_BITS - 1) / UNIT_BITS;
        const uint4* const source = reinterpret_cast<const uint4*>(packed) + block.place;
        for (u32 unit = lane(); unit <= used; unit += WARP) units[unit] = source[unit];
        __syncwarp();
        const u32* const words = reinterpret_cast<const u32*>(units);
        u8* const codes = args.codes[column];
        switch (args.widths[column]) {
            case 1: store_codes(words, block, count, codes + first); break;
            case 2: store_codes(words, block, count, reinterpret_cast<u16*>(codes) + first); break;
            case 4: store_codes(words, block, count, reinterpret_cast<u32*>(codes) + first); break;
            default: store_codes(words, block, count, reinterpret_cast<u64*>(codes) + first); break;
        }
        __syncwarp();
    }
}
