//! RW_malloc: any number of consecutive units, from any state of the pool.

use galatea_device::{In, Out};
use galatea_kernels::heap::PageSearch;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::{PAGE_BYTES, Pool, devices, emulated};

/// Allocates blocks of these sizes in bytes. Returns their first and last units, sorted, without overlaps.
fn take(pool: &Pool, sizes: &[u64], case: &str) -> (Vec<u64>, Vec<(u64, u64)>) {
    let sizes_on_device = pool.device.upload(&pool.stream, sizes).unwrap();
    let mut addresses = pool.device.zeroed::<u64>(&pool.stream, sizes.len()).unwrap();
    let view = pool.heap.view();
    pool.allocate
        .launch_sizes(&pool.stream, view, In(&sizes_on_device), Out(&mut addresses))
        .unwrap();
    let addresses = pool.read(&addresses);
    let mut blocks: Vec<_> = addresses
        .iter()
        .zip(sizes)
        .filter(|(address, _)| **address != 0)
        .map(|(address, size)| {
            let offset = address - pool.heap.first_page();
            assert_eq!(offset % PAGE_BYTES, 0, "{case}");
            let first = offset / PAGE_BYTES;
            (first, first + size.div_ceil(PAGE_BYTES))
        })
        .collect();
    blocks.sort_unstable();
    assert!(
        blocks.windows(2).all(|pair| pair[0].1 <= pair[1].0),
        "blocks overlap: {case}"
    );
    assert!(
        blocks.last().is_none_or(|last| last.1 <= pool.heap.page_count()),
        "a block ends after the pool: {case}"
    );
    (addresses, blocks)
}

fn units(blocks: &[(u64, u64)]) -> u64 {
    blocks.iter().map(|(first, end)| end - first).sum()
}

fn release(pool: &Pool, addresses: &[u64]) {
    pool.release(&pool.device.upload(&pool.stream, addresses).unwrap());
}

#[test]
fn mixed_size_blocks_do_not_overlap_and_are_freed() {
    for (case, device) in devices([0, 1, 2]) {
        let mut random = SmallRng::seed_from_u64(7);
        for units_in_pool in [64, 100, 1000, 5000] {
            let pool = Pool::checked(&device, units_in_pool, PageSearch::Runs);
            for most in [1, 3, 64, 65, 200] {
                let case = format!("{units_in_pool} units, up to {most}, {case}");
                let sizes: Vec<u64> = (0..100)
                    .map(|_| random.random_range(0..=most * PAGE_BYTES))
                    .collect();
                let (mut addresses, blocks) = take(&pool, &sizes, &case);
                pool.assert_free_of_sizes(units_in_pool - units(&blocks), &case);
                // Size zero yields nothing, and while all fit none is refused.
                let wanted: u64 = sizes.iter().map(|size| size.div_ceil(PAGE_BYTES)).sum();
                if 4 * wanted < units_in_pool {
                    assert_eq!(units(&blocks), wanted, "{case}");
                }
                // Half of the blocks are freed, others are allocated in the holes, then all are freed.
                addresses.shuffle(&mut random);
                let (some, rest) = addresses.split_at(50);
                release(&pool, some);
                let (more, _) = take(&pool, &sizes[..70], &case);
                release(&pool, rest);
                release(&pool, &more);
                pool.assert_free_of_sizes(units_in_pool, &case);
            }
        }
    }
}

/// The whole pool as one block, and every length in a pool with exactly one hole of that length, across
/// words.
#[test]
fn only_free_run_is_found() {
    for seed in [1, 2] {
        let device = emulated(seed);
        let mut random = SmallRng::seed_from_u64(seed);
        let pages = 1000u64;
        let mut pool = Pool::checked(&device, pages, PageSearch::Runs);
        for length in [1, 2, 31, 63, 64, 65, 127, 128, 200, 999, 1000] {
            let first = random.random_range(0..=pages - length);
            let case = format!("{length} units from {first}, seed {seed}");
            let mut bits = vec![0u64; pages.div_ceil(64) as usize];
            for unit in first..first + length {
                bits[(unit / 64) as usize] |= 1 << (unit % 64);
            }
            let free = device.upload(&pool.stream, &bits).unwrap();
            pool.heap.reset_to(&pool.stream, &free).unwrap();
            let (none, _) = take(&pool, &[(length + 1) * PAGE_BYTES], &case);
            assert!(none[0] == 0 || length == pages, "{case}");
            pool.heap.forget_statistics(&pool.stream).unwrap();
            // One of several threads allocates it.
            let (addresses, blocks) = take(&pool, &[length * PAGE_BYTES; 5], &case);
            assert_eq!(blocks, [(first, first + length)], "{case}");
            release(&pool, &addresses);
            pool.assert_free_of_sizes(length, &case);
        }
    }
}

/// Blocks of one size until none is left: the remaining pieces are too small for another.
#[test]
fn pool_is_used_until_no_run_fits() {
    for seed in [1, 2] {
        let device = emulated(seed);
        for length in [1u64, 2, 7, 32, 48, 100] {
            let pages = 3000;
            let pool = Pool::checked(&device, pages, PageSearch::Runs);
            let case = format!("{length} units, seed {seed}");
            let mut all = Vec::new();
            loop {
                let (_, blocks) = take(&pool, &[length * PAGE_BYTES; 64], &case);
                if blocks.is_empty() {
                    break;
                }
                all.extend(blocks);
            }
            all.sort_unstable();
            let mut end = 0;
            for (first, next) in &all {
                assert!(
                    first - end < length,
                    "a hole of {} units is left: {case}",
                    first - end
                );
                end = *next;
            }
            assert!(pages - end < length, "{case}");
            println!("{case}: {:.1} % used", 100.0 * units(&all) as f64 / pages as f64);
        }
    }
}

/// Small requests of a warp are neighbours: they are summed into one, and split.
#[test]
fn small_requests_of_a_warp_are_neighbours() {
    let device = emulated(4);
    let pool = Pool::checked(&device, 10_000, PageSearch::Runs);
    let sizes: Vec<u64> = (0..32).map(|lane| lane % 4 * PAGE_BYTES).collect();
    let (addresses, blocks) = take(&pool, &sizes, "summed");
    assert_eq!(units(&blocks), 48);
    assert_eq!(blocks[23].1 - blocks[0].0, 48, "{blocks:?}");
    // Each is freed separately.
    release(&pool, &addresses[5..9]);
    pool.assert_free_of_sizes(10_000 - 48 + 6, "four of them freed");
}

impl Pool {
    /// Like `assert_free`, for a pool with requests beyond its size.
    fn assert_free_of_sizes(&self, free: u64, case: &str) {
        let counts = self.heap.verify(&self.device, &self.stream).unwrap();
        assert_eq!((counts.free, counts.stray), (free, 0), "{counts:?}, {case}");
        let faults = self.heap.statistics(&self.stream).unwrap().faults;
        assert!(!faults.foreign && !faults.double_free, "{faults:?}, {case}");
    }
}
