//! Figures of M. Pham et al., ICS 2022: random walks for pages of a heap.

use super::{Entry, Paper, bench, shared};

figures_of!(Allocator);

pub(super) const FIGURES: &[Entry] = &[
    figure(
        "1",
        "atomics on one word",
        "the latency of an atomic operation on one word grows linearly with the number of threads",
        "contention",
        "allocator contention",
    ),
    drawing("2", "the queues of Ouroboros"),
    drawing("3", "a random walk"),
    figure(
        "4",
        "expected steps",
        "steps of a random walk hardly grow with the number of threads, those of a queue linearly",
        "theory",
        "allocator theory",
    ),
    drawing("5", "an example of the collaborative walk"),
    drawing("6", "an example of RW_malloc"),
    figure(
        "7",
        "few free pages",
        "CoRW is more than ten times faster than Ouroboros in most cases, less so below 1 % free; steps equal the theory",
        "free-share",
        "allocator free-share",
    ),
    Entry::new(
        Paper::Allocator,
        "7",
        "a thread for every free page",
        "with 1 % free and no page left at the end, CoRW is still ahead of Ouroboros by a big margin",
        shared("drain", "free-share", "allocator free-share"),
    ),
    figure(
        "8",
        "number of threads, allocation",
        "RW_malloc is up to three orders of magnitude faster than Ouroboros, which holds what it allocated",
        "scaling",
        "allocator scaling",
    ),
    Entry::new(
        Paper::Allocator,
        "8",
        "number of threads, freeing",
        "RW_malloc frees up to ten times as fast as Ouroboros, the more so the more threads",
        shared("freeing", "scaling", "allocator scaling"),
    ),
    figure(
        "9",
        "size of requests",
        "RW_malloc does not depend on the size from 4 B to 8 KiB; Ouroboros loses an order of magnitude",
        "sizes",
        "allocator sizes",
    ),
    figure(
        "10",
        "mixed sizes",
        "RW_malloc is up to two orders faster than Ouroboros, which wins only if memory is freed at once",
        "mixed",
        "allocator mixed",
    ),
    figure(
        "11",
        "used share of the pool",
        "RW_malloc always uses close to 100 % of the pool; Ouroboros does so only for powers of two",
        "utilization",
        "allocator utilization",
    ),
    figure(
        "12",
        "a hash join",
        "RW-BM and CoRW beat a single atomic counter, which is slightly faster than RW; Ouroboros is the slowest",
        "hash-join",
        "allocator hash-join",
    ),
];
