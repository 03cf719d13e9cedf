// Grid scope. Counts the free pages of a heap that no kernel is using, and checks that its structures are
// consistent. One warp per superblock.
#include "galatea/args/heap_verify.h"

using namespace galatea;

extern "C" __global__ void heap_verify(const HeapVerifyArguments args) {
    const HeapView& heap = args.heap;
    const u64 words = heap_words(heap);
    for (u64 superblock = grid_thread() / WARP; superblock < heap.superblocks; superblock += grid_threads() / WARP) {
        const u64 word = superblock * SUPERBLOCK_WORDS + lane();
        u64 bits = 0;
        if (args.flags != 0) {
            const u32* flags = reinterpret_cast<const u32*>(heap.own) + word * 64;
            for (u32 i = 0; i < 64 && word * 64 + i < heap.page_count; ++i) bits |= u64(flags[i] != 0) << i;
        } else {
            bits = heap.bitmap[word];
        }
        u64 valid = 0;
        if (word < words) valid = word == words - 1 ? low_bits(u32(heap.page_count - word * 64)) : ~0ull;
        const u32 free = __reduce_add_sync(0xffffffffu, u32(__popcll(bits & valid)));
        const u32 stray = __reduce_add_sync(0xffffffffu, u32(__popcll(bits & ~valid)));
        if (lane() != 0) continue;
        if (free != 0) atomicAdd(args.result + HEAP_FREE_BITS, u64(free));
        if (stray != 0) atomicAdd(args.result + HEAP_STRAY_BITS, u64(stray));
        if (args.balances == 0) continue;
        const u32 total = Balance(heap.balances[superblock]).total();
        const u64 group = superblock / GROUP_SUPERBLOCKS;
        if (total != 0) atomicAdd(args.result + HEAP_FREE_BALANCE, u64(total));
        if (total != free) atomicAdd(args.result + HEAP_WRONG_BALANCES, 1ull);
        if (free != 0 && (heap.summary[group / 64] >> (group & 63) & 1) == 0)
            atomicAdd(args.result + HEAP_UNANNOUNCED, 1ull);
    }
}
