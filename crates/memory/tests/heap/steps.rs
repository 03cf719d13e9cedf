//! Measured steps compared with the paper's analysis: Equations 2 and 4 within sampling error, Equations 3
//! and 5 as upper bounds.

use galatea_kernels::heap::PageSearch;
use galatea_memory::sizing::Pool as Theory;
use galatea_memory::{HeapOptions, HeapStatistics};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::{PAGE_BYTES, Pool, emulated};

/// Mean steps over some launches, each from a new random state, and the theoretical value of the mean state.
fn measure(
    search: PageSearch,
    pages: u64,
    share: f64,
    threads: u64,
    launches: u64,
) -> (HeapStatistics, Theory) {
    let device = emulated(2);
    let options = HeapOptions {
        probes: u32::MAX,
        ..HeapOptions::pages_of(PAGE_BYTES).search(search).counted()
    };
    let mut pool = Pool::new(&device, pages, options);
    let mut random = SmallRng::seed_from_u64(pages + threads);
    let mut all = HeapStatistics::default();
    let mut free_pages = 0;
    for _ in 0..launches {
        let mut bits = vec![0u64; pages.div_ceil(64) as usize];
        for page in 0..pages {
            if random.random_bool(share) {
                bits[(page / 64) as usize] |= 1 << (page % 64);
                free_pages += 1;
            }
        }
        let free = device.upload(&pool.stream, &bits).unwrap();
        pool.heap.reset_to(&pool.stream, &free).unwrap();
        pool.allocate(threads as usize, PAGE_BYTES);
        let one = pool.heap.statistics(&pool.stream).unwrap();
        assert_eq!((one.allocations, one.failures), (threads, 0));
        all.allocations += one.allocations;
        all.steps += one.steps;
        all.warp_steps += one.warp_steps;
        all.warps += one.warps;
        all.sweeps += one.sweeps;
        all.atomics += one.atomics;
        all.collisions += one.collisions;
    }
    assert_eq!(all.sweeps, 0);
    let theory = Theory {
        pages,
        free: free_pages / launches,
        threads,
    };
    (all, theory)
}

#[test]
fn random_walk_steps_match_the_paper() {
    // The number of words is so large that hardly any is visited twice, which Equations 4 and 5 neglect.
    let pages = 400_000;
    for (search, width) in [
        (PageSearch::RandomWalk, 1),
        (PageSearch::RandomWalkBitmap32, 32),
        (PageSearch::RandomWalkBitmap64, 64),
    ] {
        for (share, threads) in [(0.5, 500), (0.1, 500), (0.02, 500)] {
            let (measured, theory) = measure(search, pages, share, threads, 8);
            let case = format!("{search}, {share} free, {threads} threads");
            let (tas, was) = (
                measured.thread_average_steps().unwrap(),
                measured.warp_average_steps().unwrap(),
            );
            // A walk is geometric: its deviation is about its mean, so that of the mean over all walks is tas
            // / sqrt(n). Four of them, and 3 % for the spread of the states. Neighbouring threads lose
            // claims, so slightly more steps than expected.
            let expected = theory.tas(width);
            let error = expected * (4.0 / (measured.allocations as f64).sqrt() + 0.03);
            assert!(
                (tas - expected).abs() < error,
                "TAS {tas}, Equation {expected} +- {error}: {case}"
            );
            // The bound neglects that threads lose claims to each other. A lost claim is an additional step
            // of its warp.
            let lost = theory.collisions() * 32.0 / threads as f64;
            let bound = theory.was_bound(width) + 2.0 * lost;
            assert!(
                was < bound * 1.04 && was >= tas,
                "WAS {was}, bound {bound}: {case}: {measured:?}"
            );
        }
    }
}

/// The table of counts: one probe and 0.03 to 0.9 atomics per page for the window search, because a warp
/// shares its claims; about three atomics per probe for CoRW.
#[test]
fn window_search_needs_few_probes_and_atomics() {
    for (share, threads) in [(1.0, 10_000), (0.5, 5000), (0.1, 1000)] {
        let (window, _) = measure(PageSearch::Window, 20_480, share, threads, 2);
        let (collaborative, theory) = measure(PageSearch::Collaborative32, 20_480, share, threads, 2);
        let case = format!("{share} free: {window:?}, {collaborative:?}");
        assert!(window.thread_average_steps().unwrap() < 1.6, "{case}");
        assert!(
            collaborative.thread_average_steps().unwrap() < theory.tas(32) + 0.5,
            "{case}"
        );
        let (ours, theirs) = (
            window.atomics_per_request().unwrap(),
            collaborative.atomics_per_request().unwrap(),
        );
        assert!(
            ours * 5.0 < theirs && theirs > 2.0,
            "atomics {ours} and {theirs}: {case}"
        );
    }
}
