// Kernels of the allocator experiments that are not part of the engine: floors for comparison, and the hash
// join of the case study.
#include "galatea/heap.cuh"

using namespace galatea;

// The floor of every allocation experiment: a launch, and eight bytes stored per thread.
struct NullArguments { u64* out; u64 count; };
extern "C" __global__ void null_kernel(const NullArguments args) {
    const u64 i = grid_thread();
    if (i < args.count) args.out[i] = i + 1;
}

// Every thread (or the first of every warp) changes one word by exchanges, which no compiler merges.
struct ContendArguments { u64* word; u64* out; u64 count; u64 per_warp; };
extern "C" __global__ void contend(const ContendArguments args) {
    const u64 i = grid_thread();
    if (i >= args.count) return;
    u64 seen = 0;
    if (args.per_warp == 0 || lane() == 0) seen = atomicExch(args.word, i);
    args.out[i] = seen;
}

// Random bits of pages, with a given share of ones.
struct SprinkleArguments { u64* bits; u64 words; u64 seed; u64 threshold; };
extern "C" __global__ void sprinkle(const SprinkleArguments args) {
    for (u64 word = grid_thread(); word < args.words; word += grid_threads()) {
        u64 bits = 0;
        for (u32 i = 0; i < 64; ++i) bits |= u64((mix64(args.seed + word * 64 + i) >> 32) < args.threshold) << i;
        args.bits[word] = bits;
    }
}

// Sizes drawn evenly from [4, most], multiples of 4.
struct SizesArguments { u64* sizes; u64 count; u64 seed; u64 most; };
extern "C" __global__ void sizes(const SizesArguments args) {
    for (u64 i = grid_thread(); i < args.count; i += grid_threads())
        args.sizes[i] = 4 * (1 + __umul64hi(mix64(args.seed + i), args.most / 4));
}

// The hash join: keys of both sides are mix64 of small numbers, so that each build key has about two matches.
GALATEA_INLINE u64 join_key(u64 i, u64 distinct) { return mix64(i % distinct) | 1; }

struct BuildArguments { u64* slots; u64 mask; u64 rows; };
extern "C" __global__ void join_build(const BuildArguments args) {
    for (u64 i = grid_thread(); i < args.rows; i += grid_threads()) {
        const u64 key = join_key(i, args.rows);
        for (u64 at = key >> 16 & args.mask;; at = (at + 1) & args.mask)
            if (atomicCAS(args.slots + 2 * at, 0ull, key) == 0) { args.slots[2 * at + 1] = i; break; }
    }
}

// Each thread that finds a match allocates a page for its output, and writes one result into it.
struct ProbeArguments { HeapView heap; const u64* slots; u64* found; u64 mask; u64 build_rows; u64 rows; };
extern "C" __global__ void __launch_bounds__(256, 8) join_probe(const ProbeArguments args) {
    const u64 i = grid_thread();
    const u32 live = __ballot_sync(first_lanes(live_lanes()), i < args.rows);
    if (i >= args.rows) return;
    const u64 key = join_key(i, 2 * args.build_rows);
    u64 partner = NO_PAGE;
    for (u64 at = key >> 16 & args.mask;; at = (at + 1) & args.mask) {
        const u64 slot = args.slots[2 * at];
        if (slot == key) partner = args.slots[2 * at + 1];
        if (slot == key || slot == 0) break;
    }
    HeapWalk walk = heap_walk(args.heap, i / WARP);
    const u64 page = heap_take(args.heap, live, partner != NO_PAGE, walk);
    if (page != NO_PAGE) {
        u64* out = reinterpret_cast<u64*>(heap_address(args.heap, page));
        out[0] = i;
        out[1] = partner;
    }
    const u32 wrote = __ballot_sync(live, page != NO_PAGE);
    if (lane() == u32(__ffs(live) - 1) && wrote != 0) atomicAdd(args.found + (blockIdx.x & 1023), u64(__popc(wrote)));
}
