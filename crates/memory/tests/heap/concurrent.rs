//! Threads that concurrently allocate, use and free pages, by thread, warp and block, from any lanes: each
//! page has one holder at a time, and at the end every page is free.

use galatea_device::{Device, DevicePointer, Geometry, environment, kernel_arguments};
use galatea_kernels::heap::{HeapBuild, HeapView, PageSearch};

use crate::{Pool, REUSING, devices, kernel, own_device};

kernel_arguments! {
    struct ChurnArguments in "a test" {
        heap: HeapView,
        counters: DevicePointer<u64>,
        rounds: u64,
    }
}

/// Each thread holds up to two pages, writes its name into them, and later checks it. Lanes drop out at
/// random, so masks are arbitrary. Every third round a lane acts alone, every fourth the block together,
/// every fifth a warp allocates one page.
const CHURN: &str = r#"
#include "galatea/heap.cuh"
using namespace galatea;
struct Arguments { HeapView heap; u64* counters; u64 rounds; };
GALATEA_INLINE void mark(const HeapView& heap, u64 page, u64 name) {
    volatile u64* words = reinterpret_cast<volatile u64*>(heap_address(heap, page));
    for (u32 i = 0; i < heap.page_bytes / 8; ++i) words[i] = name + i;
}
GALATEA_INLINE bool marked(const HeapView& heap, u64 page, u64 name) {
    const volatile u64* words = reinterpret_cast<const volatile u64*>(heap_address(heap, page));
    for (u32 i = 0; i < heap.page_bytes / 8; ++i) if (words[i] != name + i) return false;
    return true;
}
extern "C" __global__ void churn(const Arguments args) {
    __shared__ Scratch<u32> scratch;
    __shared__ u64 block_pages[40];
    const HeapView& heap = args.heap;
    const u64 name = (grid_thread() + 1) << 20;
    HeapWalk walk = heap_walk(heap, grid_thread() / WARP);
    u64 held[2] = {NO_PAGE, NO_PAGE};
    u64 random = mix64(heap.seed + grid_thread());
    const u32 everybody = first_lanes(live_lanes());
    for (u64 round = 0; round < args.rounds; ++round) {
        random = mix64(random);
        const u32 slot = u32(random >> 8) & 1;
        const bool acts = (random & 3) != 0;
        const u32 mask = __ballot_sync(everybody, acts);
        if (acts) {
            const u32 lanes = round % 3 == 2 ? 1u << lane() : mask;
            if (held[slot] == NO_PAGE || lanes == mask) {
                const bool want = held[slot] == NO_PAGE;
                const u64 page = heap_take(heap, lanes, want, walk);
                if (want && page == NO_PAGE) atomicAdd(args.counters + 1, 1ull);
                if (!want && page != NO_PAGE) atomicAdd(args.counters, 1ull);
                if (page != NO_PAGE) { held[slot] = page; mark(heap, page, name); }
            }
            __syncwarp(mask);
            for (u32 i = 0; i < 2; ++i)
                if (held[i] != NO_PAGE && !marked(heap, held[i], name)) atomicAdd(args.counters, 1ull);
            const bool gives = (random >> 20 & 1) != 0;
            heap_give(heap, mask, gives ? held[slot ^ 1] : NO_PAGE);
            if (gives) held[slot ^ 1] = NO_PAGE;
        }
        __syncwarp(everybody);
        if (round % 5 == 4) {
            // One page for the warp, which its first lane holds.
            const u32 leader = __ffs(everybody) - 1;
            const HeapTaken taken = heap_take_one(heap, everybody, walk);
            walk = taken.walk;
            if (__shfl_sync(everybody, taken.page, leader) != taken.page) atomicAdd(args.counters, 1ull);
            if (lane() == leader && taken.page == NO_PAGE) atomicAdd(args.counters + 1, 1ull);
            if (lane() == leader && taken.page != NO_PAGE) {
                mark(heap, taken.page, name);
                if (!marked(heap, taken.page, name)) atomicAdd(args.counters, 1ull);
                heap_give_one(heap, taken.page);
            }
            __syncwarp(everybody);
        }
        if (round % 4 == 3) {
            const u32 asked = u32(round * 7 % 41);
            const u32 got = heap_take_block(heap, asked, block_pages, walk, scratch);
            if (got > asked) atomicAdd(args.counters, 1ull);
            const u64 block_name = u64(blockIdx.x + 1) << 44;
            for (u32 i = threadIdx.x; i < got; i += blockDim.x) mark(heap, block_pages[i], block_name);
            __syncthreads();
            for (u32 i = threadIdx.x; i < got; i += blockDim.x)
                if (!marked(heap, block_pages[got - 1 - i], block_name)) atomicAdd(args.counters, 1ull);
            heap_give_block(heap, got, block_pages);
        }
    }
    for (u32 i = 0; i < 2; ++i) {
        if (held[i] != NO_PAGE && !marked(heap, held[i], name)) atomicAdd(args.counters, 1ull);
        heap_give(heap, everybody, held[i]);
    }
}
"#;

fn churn(
    device: &Device,
    search: PageSearch,
    pages: u64,
    (blocks, block): (u32, u32),
    rounds: u64,
    case: &str,
) -> u64 {
    let case = format!("{search}, {pages} pages, {blocks} blocks of {block}, {case}");
    let pool = Pool::checked(device, pages, search);
    let build = HeapBuild {
        search,
        check: true,
        count: false,
    };
    let function = kernel(device, "churn", CHURN, build);
    let counters = device.zeroed::<u64>(&pool.stream, 2).unwrap();
    let arguments = ChurnArguments {
        heap: pool.heap.view(),
        counters: DevicePointer::new(counters.address()),
        rounds,
    };
    function
        .launch(&pool.stream, Geometry::new(blocks, block), &arguments)
        .unwrap();
    let counters = pool.read(&counters);
    assert_eq!(counters[0], 0, "pages with two owners: {case}");
    pool.assert_free(pages, &case);
    counters[1]
}

#[test]
fn concurrent_allocations_never_share_pages() {
    for (case, device) in devices([0, 1, 2, 3]) {
        for search in REUSING {
            // More pages than threads can hold: no request may be refused.
            let plenty = churn(&device, search, 700, (2, 96), 12, &case);
            assert_eq!(plenty, 0, "{search} refused a page there was, {case}");
            // Fewer pages: some requests are refused, and the pool is consistent afterwards.
            churn(&device, search, 65, (3, 64), 12, &case);
        }
    }
}

/// Many blocks allocate concurrently from a pool of many superblocks, which is drained and refilled.
#[test]
fn superblocks_are_drained_and_refilled() {
    for (case, device) in devices([1, 2]) {
        for (pages, shape) in [(4200, (16, 128)), (2048, (12, 96)), (70_000, (8, 256))] {
            churn(&device, PageSearch::Window, pages, shape, 16, &case);
        }
    }
}

/// The same test as a campaign, with the number of seeds of the environment variable.
#[test]
fn campaign() {
    // Two devices for all seeds, one of them switching threads at every basic block: each keeps the stacks of
    // its threads.
    let devices = [own_device(1000), own_device(1001)];
    for seed in 1..=environment::campaign() {
        for device in &devices {
            device.set_seed(seed);
            for search in REUSING {
                for pages in [1, 33, 64, 300, 2049, 5000] {
                    churn(device, search, pages, (4, 96), 24, &format!("seed {seed}"));
                }
            }
        }
    }
}
