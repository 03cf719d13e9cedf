//! Pools of every critical size: each page is allocated once, and none after the last one. The same holds
//! after frees, and from any state.

use galatea_kernels::heap::PageSearch;
use galatea_memory::{DeviceHeap, HeapError, HeapOptions};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::{PAGE_BYTES, Pool, REUSING, devices, emulated, own_device};

const SIZES: [u64; 14] = [1, 2, 31, 32, 33, 63, 64, 65, 100, 1000, 2047, 2048, 2049, 4500];

#[test]
fn each_page_is_allocated_once() {
    for (case, device) in devices([0, 1, 2, 99]) {
        for search in REUSING {
            for pages in SIZES {
                let case = format!("{search}, {pages} pages, {case}");
                let pool = Pool::checked(&device, pages, search);
                pool.assert_free(pages, &case);
                for round in 0..3 {
                    let case = format!("{case}, round {round}");
                    // One thread more than pages, and a few more: partial warps, several blocks.
                    let extra = [1, 37, 300][round];
                    let addresses = pool.allocate(pages as usize + extra, PAGE_BYTES);
                    let got = pool.pages(&pool.read(&addresses), &case);
                    assert_eq!(got.len() as u64, pages, "{case}");
                    pool.assert_free(0, &case);
                    let none = pool.allocate(33, PAGE_BYTES);
                    assert!(
                        pool.read(&none).iter().all(|address| *address == 0),
                        "pages from an empty pool: {case}"
                    );
                    pool.release(&addresses);
                    pool.assert_free(pages, &case);
                }
            }
        }
    }
}

/// The only free page is found, wherever it is, by one thread or by one of many.
#[test]
fn only_free_page_is_found() {
    for seed in [1, 2] {
        let device = emulated(seed);
        let mut random = SmallRng::seed_from_u64(seed);
        for search in REUSING {
            for pages in [1u64, 33, 65, 2049, 70_000] {
                let mut pool = Pool::checked(&device, pages, search);
                for page in [0, pages - 1, random.random_range(0..pages)] {
                    let case = format!("{search}, page {page} of {pages}, seed {seed}");
                    let mut bits = vec![0u64; pages.div_ceil(64) as usize];
                    bits[(page / 64) as usize] = 1 << (page % 64);
                    let free = device.upload(&pool.stream, &bits).unwrap();
                    pool.heap.reset_to(&pool.stream, &free).unwrap();
                    for threads in [1, 40] {
                        let addresses = pool.allocate(threads, 1);
                        assert_eq!(pool.pages(&pool.read(&addresses), &case), [page], "{case}");
                        pool.release(&addresses);
                    }
                    pool.assert_free(1, &case);
                }
            }
        }
    }
}

/// Random states of the pool, and exactly one thread per free page: all requests are served.
#[test]
fn requests_succeed_while_pages_are_free() {
    for seed in [1, 2, 3] {
        let device = emulated(seed);
        let mut random = SmallRng::seed_from_u64(seed);
        for search in REUSING {
            let pages = 9000;
            let mut pool = Pool::checked(&device, pages, search);
            for share in [0.5, 0.1, 0.01] {
                let mut bits = vec![0u64; (pages as usize).div_ceil(64)];
                let mut expected: Vec<u64> = (0..pages).filter(|_| random.random_bool(share)).collect();
                for page in &expected {
                    bits[(page / 64) as usize] |= 1 << (page % 64);
                }
                // Bits after the last page are not pages, even if they are set as free.
                *bits.last_mut().unwrap() |= !0 << (pages % 64);
                let free = device.upload(&pool.stream, &bits).unwrap();
                pool.heap.reset_to(&pool.stream, &free).unwrap();
                let case = format!("{search}, {share} free, seed {seed}");
                pool.assert_free(expected.len() as u64, &case);
                let addresses = pool.allocate(expected.len(), PAGE_BYTES);
                assert_eq!(pool.pages(&pool.read(&addresses), &case), expected, "{case}");
                // Some of the pages are freed in another order.
                let mut given = pool.read(&addresses);
                given.shuffle(&mut random);
                given.truncate(expected.len() / 2);
                pool.release(&device.upload(&pool.stream, &given).unwrap());
                pool.assert_free(given.len() as u64, &case);
                expected.clear();
            }
        }
    }
}

#[test]
fn bump_allocator_stops_at_the_end_until_reset() {
    for pages in SIZES {
        let device = emulated(pages % 5);
        let mut pool = Pool::checked(&device, pages, PageSearch::Bump);
        for _ in 0..2 {
            let case = format!("bump, {pages} pages");
            let addresses = pool.allocate(pages as usize + 45, PAGE_BYTES);
            let got = pool.pages(&pool.read(&addresses), &case);
            assert_eq!(got.len() as u64, pages, "{case}");
            pool.release(&addresses);
            assert_eq!(pool.read(&pool.allocate(1, PAGE_BYTES)), [0], "{case}");
            pool.heap.reset(&pool.stream).unwrap();
        }
    }
}

#[test]
fn zero_and_oversized_requests_return_null() {
    let device = emulated(4);
    for search in PageSearch::ALL {
        let pool = Pool::checked(&device, 100, search);
        assert_eq!(pool.read(&pool.allocate(3, 0)), [0, 0, 0], "{search}: size 0");
        assert!(!pool.heap.statistics(&pool.stream).unwrap().faults.any());
        let too_large = if search == PageSearch::Runs {
            101 * PAGE_BYTES
        } else {
            PAGE_BYTES + 1
        };
        assert_eq!(
            pool.read(&pool.allocate(2, too_large)),
            [0, 0],
            "{search}: too large"
        );
        let faults = pool.heap.statistics(&pool.stream).unwrap().faults;
        assert!(faults.too_large && faults.first.is_some(), "{search}: {faults:?}");
    }
}

/// Pages of any multiple of 8 bytes: addresses and page numbers convert into each other.
#[test]
fn odd_page_sizes() {
    let device = emulated(6);
    for search in [PageSearch::Window, PageSearch::Queue] {
        for page_bytes in [8, 24, 40, 1000, 4104] {
            let options = HeapOptions::pages_of(page_bytes).search(search).checked();
            let pool = Pool::new(&device, 777, options);
            let case = format!("{search}, pages of {page_bytes} bytes");
            let addresses = pool.allocate(800, page_bytes);
            assert_eq!(pool.pages(&pool.read(&addresses), &case).len(), 777, "{case}");
            pool.release(&addresses);
            pool.assert_free(777, &case);
        }
    }
}

#[test]
fn heap_can_use_part_of_a_buffer() {
    let device = own_device(2);
    let stream = device.stream().unwrap();
    let used = device.budget().used();
    let memory = device.zeroed::<u64>(&stream, 1000).unwrap();
    let first = memory.address() + 8 * 100;
    let heap = DeviceHeap::over(&device, &stream, memory, 100..900, HeapOptions::pages_of(128)).unwrap();
    assert_eq!((heap.first_page(), heap.page_count()), (first, 50));
    let charged = device.budget().used() - used;
    assert!(
        charged >= 8000 + heap.overhead_bytes() && charged <= 8000 + heap.overhead_bytes() + 2 * 512,
        "{charged}"
    );
    drop(heap);
    stream.synchronize().unwrap();
    assert_eq!(device.budget().used(), used);
}

#[test]
fn impossible_heaps_are_refused() {
    let device = emulated(2);
    let stream = device.stream().unwrap();
    let make =
        |bytes, page_bytes| DeviceHeap::new(&device, &stream, bytes, HeapOptions::pages_of(page_bytes));
    for page_bytes in [0, 4, 12, (1 << 24) + 8] {
        assert!(
            matches!(make(1 << 20, page_bytes), Err(HeapError::PageSize { .. })),
            "{page_bytes}"
        );
    }
    assert!(matches!(make(63, 64), Err(HeapError::PageCount { pages: 0, .. })));
    assert!(matches!(make(1 << 35, 8), Err(HeapError::PageCount { .. })));
    assert!(
        matches!(make(1 << 34, 64), Err(HeapError::Device(_))),
        "more than the device has"
    );
    let mut heap = make(6400, 64).unwrap();
    let bits = device.zeroed::<u64>(&stream, 3).unwrap();
    assert!(matches!(
        heap.reset_to(&stream, &bits),
        Err(HeapError::FreeBits {
            words: 3,
            pages: 100,
            expected: 2
        })
    ));
}
