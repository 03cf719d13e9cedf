// Grid scope. Initialises a heap with the free pages given by a bitmap, or all pages. One warp per
// superblock, one lane per word.
#include "galatea/args/heap_reset.h"

using namespace galatea;

extern "C" __global__ void heap_reset(const HeapResetArguments args) {
    const HeapView& heap = args.heap;
    const u64 words = heap_words(heap);
    // Blocks are whole warps, and superblocks and balances are padded to whole groups and sweeps.
    const u64 end = (u64(heap.superblocks) + WARP * SWEEP_BALANCES - 1) / (WARP * SWEEP_BALANCES) * (WARP * SWEEP_BALANCES);
    for (u64 superblock = grid_thread() / WARP; superblock < end; superblock += grid_threads() / WARP) {
        const u64 word = superblock * SUPERBLOCK_WORDS + lane();
        u64 bits = 0;
        if (word < words) {
            bits = args.free == nullptr ? ~0ull : args.free[word];
            // The bits after the last page are initially in use.
            if (word == words - 1) bits &= low_bits(u32(heap.page_count - word * 64));
        }
        if (superblock < heap.superblocks) heap.bitmap[word] = bits;
        const u32 free = __reduce_add_sync(0xffffffffu, u32(__popcll(bits)));
        if (args.own == HEAP_OWN_FLAGS && word < words) {
            u32* flags = reinterpret_cast<u32*>(heap.own) + word * 64;
            for (u32 i = 0; i < 64 && word * 64 + i < heap.page_count; ++i) flags[i] = u32(bits >> i & 1);
        }
        if (args.own == HEAP_OWN_RING) {
            u32 inclusive;
            const u32 before = warp_exclusive_scan(u32(__popcll(bits)), Sum{}, inclusive);
            u64 ticket = 0;
            if (lane() == 0 && free != 0) {
                ticket = atomicAdd(heap.status + HEAP_TAIL, u64(free));
                atomicAdd(heap.balances, u64(free));
            }
            if (superblock == 0 && lane() == 0) atomicAdd(heap.balances, BALANCE_EMPTY);
            ticket = __shfl_sync(0xffffffffu, ticket, 0) + before;
            for (; bits != 0; bits &= bits - 1) heap.own[ticket++] = word * 64 + u32(__ffsll(i64(bits)));
        } else if (lane() == 0) {
            heap.balances[superblock] = BALANCE_EMPTY + free;
            const u64 group = superblock / GROUP_SUPERBLOCKS;
            if (free != 0) atomicOr(heap.summary + group / 64, 1ull << (group & 63));
        }
    }
}
