//! Queries that find the device full: they give up their memory and wait, the one that came first always
//! gets through, and there is neither deadlock nor livelock.

use crate::watched;
use galatea_memory::regions::{Admission, Demand, Lease, PipelineName, Priority, Turns};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

fn begun(turns: &Turns, weighted: u64) -> Lease<'_> {
    let demand = Demand {
        weighted,
        ..Demand::default()
    };
    turns
        .begin(
            PipelineName::new(0, "query"),
            Priority::Normal,
            demand,
            100,
            &AtomicBool::new(false),
        )
        .unwrap()
}

/// Waits until so many queries wait for memory.
fn until_starved(turns: &Turns, count: usize) {
    let starved = || {
        let queries = turns.queries();
        queries
            .iter()
            .filter(|query| query.state == "waiting for memory")
            .count()
    };
    while starved() != count {
        std::thread::sleep(Duration::from_millis(1));
    }
}

static NEVER: AtomicBool = AtomicBool::new(false);

#[test]
fn alone_there_is_no_room_to_wait_for() {
    watched(|| {
        let turns = Turns::default();
        let lease = begun(&turns, 10);
        assert!(!lease.wait_for_room(&NEVER));
        assert!(!lease.wait_for_room(&NEVER));
        assert_eq!(turns.queries()[0].state, "running");
    });
}

/// One that never ran had no memory: its end is no reason to try again.
#[test]
fn the_cancelled_make_no_room() {
    watched(|| {
        let turns = Turns::default();
        let lease = begun(&turns, 100);
        let cancelled = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let demand = Demand {
                    weighted: 50,
                    ..Demand::default()
                };
                turns
                    .begin(
                        PipelineName::new(0, "cancelled"),
                        Priority::Normal,
                        demand,
                        100,
                        &cancelled,
                    )
                    .is_some()
            });
            while turns.queries().len() < 2 {
                std::thread::sleep(Duration::from_millis(1));
            }
            cancelled.store(true, Ordering::Relaxed);
            assert!(!waits.join().unwrap());
        });
        assert!(!lease.wait_for_room(&NEVER), "nothing was freed");
    });
}

#[test]
fn the_first_waits_for_others_to_end_or_give_up() {
    watched(|| {
        for gives_up in [false, true] {
            let turns = Turns::default();
            let first = begun(&turns, 10);
            let second = begun(&turns, 10);
            std::thread::scope(|scope| {
                let (send, receive) = channel();
                let waits = scope.spawn(move || {
                    send.send(first.wait_for_room(&NEVER)).unwrap();
                    first
                });
                until_starved(&turns, 1);
                std::thread::sleep(Duration::from_millis(20));
                assert!(receive.try_recv().is_err(), "the second has its memory");
                if !gives_up {
                    drop(second);
                    assert!(receive.recv().unwrap(), "there is room");
                    drop(waits.join().unwrap());
                    return;
                }
                let ends = scope.spawn(move || second.wait_for_room(&NEVER));
                assert!(receive.recv().unwrap(), "there is room");
                std::thread::sleep(Duration::from_millis(20));
                assert!(!ends.is_finished(), "the first has not ended");
                // With all it may have the first finds too little.
                let first = waits.join().unwrap();
                assert!(!first.wait_for_room(&NEVER));
                drop(first);
                assert!(ends.join().unwrap());
            });
        }
    });
}

/// Memory freed while a query tried is worth another try at once.
#[test]
fn room_made_meanwhile_counts() {
    watched(|| {
        let turns = Turns::default();
        let first = begun(&turns, 10);
        let (second, third) = (begun(&turns, 10), begun(&turns, 10));
        drop(second);
        // The third still runs.
        assert!(first.wait_for_room(&NEVER));
        drop(third);
        assert!(first.wait_for_room(&NEVER));
        assert!(!first.wait_for_room(&NEVER));
    });
}

/// Those that came later try again when some query ends, not only the first.
#[test]
fn an_end_is_worth_a_try_for_the_others() {
    watched(|| {
        let turns = Turns::default();
        let _first = begun(&turns, 10);
        let (second, third) = (begun(&turns, 10), begun(&turns, 10));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| second.wait_for_room(&NEVER));
            until_starved(&turns, 1);
            drop(third);
            assert!(waits.join().unwrap());
        });
    });
}

/// While a query waits for memory no other begins; they leave when cancelled.
#[test]
fn the_starved_go_first_and_can_be_cancelled() {
    watched(|| {
        let turns = Turns::default();
        let first = begun(&turns, 10);
        let second = begun(&turns, 10);
        let cancelled = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| second.wait_for_room(&cancelled));
            until_starved(&turns, 1);
            let begins = scope.spawn(|| drop(begun(&turns, 10)));
            std::thread::sleep(Duration::from_millis(30));
            assert!(!begins.is_finished());
            assert!(!waits.is_finished());
            cancelled.store(true, Ordering::Relaxed);
            assert!(!waits.join().unwrap());
            begins.join().unwrap();
        });
        drop((first, second));
        assert_eq!(turns.queries(), []);
    });
}

/// Memory that threads share.
struct Card {
    capacity: u64,
    used: AtomicU64,
}

impl Card {
    fn take(&self, bytes: u64) -> bool {
        let taken = self
            .used
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |used| {
                Some(used + bytes).filter(|sum| *sum <= self.capacity)
            });
        taken.is_ok()
    }
}

/// Takes the memory that it needs in steps, giving up between: whether it got it all, and its tries.
fn query(turns: &Turns, card: &Card, random: &mut SmallRng) -> (bool, u32) {
    // Demands are predictions: some are far too small.
    let need = match random.random_range(0..10) {
        0 => card.capacity + random.random_range(1..100),
        1 => card.capacity,
        _ => random.random_range(1..=card.capacity),
    };
    let predicted = need / random.random_range(1..6);
    let demand = Demand {
        weighted: predicted,
        peak: predicted * 2,
        regions: Vec::new(),
    };
    let cancelled = AtomicBool::new(false);
    let lease = turns
        .begin(
            PipelineName::new(0, "query"),
            Priority::Normal,
            demand,
            card.capacity,
            &cancelled,
        )
        .unwrap();
    let mut tries = 0;
    loop {
        tries += 1;
        let mut held = 0;
        while held < need {
            let step = random.random_range(1..=need - held);
            if !card.take(step) {
                break;
            }
            held += step;
            if random.random_bool(0.5) {
                std::thread::yield_now();
            }
        }
        if held == need && random.random_bool(0.3) {
            std::thread::sleep(Duration::from_micros(random.random_range(0..300)));
        }
        card.used.fetch_sub(held, Ordering::SeqCst);
        if held == need {
            return (true, tries);
        }
        if !lease.wait_for_room(&NEVER) {
            assert!(
                need > card.capacity,
                "{need} bytes would fit a device of {}",
                card.capacity
            );
            return (false, tries);
        }
        assert!(tries < 10_000, "livelock");
    }
}

#[test]
fn every_query_that_fits_alone_gets_through() {
    const QUERIES: usize = 24;
    for threads in [2, 3, 5, 8, 16] {
        for policy in [Admission::Weight, Admission::Peak, Admission::Fixed(16)] {
            for seed in 0..3 {
                let (turns, card) = watched(move || {
                    let turns = Arc::new(Turns::default());
                    turns.set_admission(policy);
                    let card = Arc::new(Card {
                        capacity: 1000,
                        used: AtomicU64::new(0),
                    });
                    let next = AtomicUsize::new(0);
                    std::thread::scope(|scope| {
                        for thread in 0..threads {
                            let (turns, card, next) = (&turns, &card, &next);
                            scope.spawn(move || {
                                let mut random = SmallRng::seed_from_u64(seed * 100 + thread);
                                while next.fetch_add(1, Ordering::Relaxed) < QUERIES {
                                    query(turns, card, &mut random);
                                }
                            });
                        }
                    });
                    (turns, card)
                });
                assert_eq!(turns.queries(), [], "{threads} threads, {policy:?}, seed {seed}");
                assert_eq!(card.used.load(Ordering::SeqCst), 0);
            }
        }
    }
}
