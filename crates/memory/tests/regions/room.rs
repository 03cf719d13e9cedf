//! Queries that find the device full release their memory and wait. The one that arrived first always
//! completes, without deadlock or livelock.

use crate::watched;
use galatea_memory::regions::{
    Admission, AdmissionController, AdmissionTicket, Demand, PipelineName, Priority,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

fn begun(admission: &AdmissionController, weighted: u64) -> AdmissionTicket<'_> {
    let demand = Demand {
        weighted,
        ..Demand::default()
    };
    admission
        .begin(
            PipelineName::new(0, "query"),
            Priority::Normal,
            demand,
            100,
            &AtomicBool::new(false),
        )
        .unwrap()
}

/// Waits until that number of queries wait for memory.
fn until_starved(admission: &AdmissionController, count: usize) {
    let starved = || {
        let queries = admission.queries();
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
fn wait_for_room_fails_if_no_other_query_runs() {
    watched(|| {
        let admission = AdmissionController::default();
        let ticket = begun(&admission, 10);
        assert!(!ticket.wait_for_room(&NEVER));
        assert!(!ticket.wait_for_room(&NEVER));
        assert_eq!(admission.queries()[0].state, "running");
    });
}

/// A query that never ran had no memory: its end is no reason for another attempt.
#[test]
fn cancelled_query_does_not_trigger_a_retry() {
    watched(|| {
        let admission = AdmissionController::default();
        let ticket = begun(&admission, 100);
        let cancelled = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let demand = Demand {
                    weighted: 50,
                    ..Demand::default()
                };
                admission
                    .begin(
                        PipelineName::new(0, "cancelled"),
                        Priority::Normal,
                        demand,
                        100,
                        &cancelled,
                    )
                    .is_some()
            });
            while admission.queries().len() < 2 {
                std::thread::sleep(Duration::from_millis(1));
            }
            cancelled.store(true, Ordering::Relaxed);
            assert!(!waits.join().unwrap());
        });
        assert!(!ticket.wait_for_room(&NEVER), "nothing was freed");
    });
}

#[test]
fn first_query_waits_until_others_end_or_give_up() {
    watched(|| {
        for gives_up in [false, true] {
            let admission = AdmissionController::default();
            let first = begun(&admission, 10);
            let second = begun(&admission, 10);
            std::thread::scope(|scope| {
                let (send, receive) = channel();
                let waits = scope.spawn(move || {
                    send.send(first.wait_for_room(&NEVER)).unwrap();
                    first
                });
                until_starved(&admission, 1);
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
                // Even with all available memory, the first query finds too little.
                let first = waits.join().unwrap();
                assert!(!first.wait_for_room(&NEVER));
                drop(first);
                assert!(ends.join().unwrap());
            });
        }
    });
}

/// Memory that was freed during an attempt justifies another attempt at once.
#[test]
fn memory_freed_during_the_attempt_triggers_a_retry() {
    watched(|| {
        let admission = AdmissionController::default();
        let first = begun(&admission, 10);
        let (second, third) = (begun(&admission, 10), begun(&admission, 10));
        drop(second);
        // The third still runs.
        assert!(first.wait_for_room(&NEVER));
        drop(third);
        assert!(first.wait_for_room(&NEVER));
        assert!(!first.wait_for_room(&NEVER));
    });
}

/// Not only the first query tries again when some query ends, but also the later ones.
#[test]
fn end_of_a_query_triggers_retries_of_later_queries() {
    watched(|| {
        let admission = AdmissionController::default();
        let _first = begun(&admission, 10);
        let (second, third) = (begun(&admission, 10), begun(&admission, 10));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| second.wait_for_room(&NEVER));
            until_starved(&admission, 1);
            drop(third);
            assert!(waits.join().unwrap());
        });
    });
}

/// While a query waits for memory, no other query begins. Waiting queries leave when cancelled.
#[test]
fn starved_queries_have_precedence_and_can_be_cancelled() {
    watched(|| {
        let admission = AdmissionController::default();
        let first = begun(&admission, 10);
        let second = begun(&admission, 10);
        let cancelled = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| second.wait_for_room(&cancelled));
            until_starved(&admission, 1);
            let begins = scope.spawn(|| drop(begun(&admission, 10)));
            std::thread::sleep(Duration::from_millis(30));
            assert!(!begins.is_finished());
            assert!(!waits.is_finished());
            cancelled.store(true, Ordering::Relaxed);
            assert!(!waits.join().unwrap());
            begins.join().unwrap();
        });
        drop((first, second));
        assert_eq!(admission.queries(), []);
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

/// Allocates the memory that it needs in steps, releasing it in between. Returns whether it got all of it,
/// and the number of attempts.
fn query(admission: &AdmissionController, card: &Card, random: &mut SmallRng) -> (bool, u32) {
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
        ..Demand::default()
    };
    let cancelled = AtomicBool::new(false);
    let ticket = admission
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
        if !ticket.wait_for_room(&NEVER) {
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
fn every_query_that_fits_alone_completes() {
    const QUERIES: usize = 24;
    for threads in [2, 3, 5, 8, 16] {
        for policy in [Admission::Weight, Admission::Peak, Admission::Fixed(16)] {
            for seed in 0..3 {
                let (admission, card) = watched(move || {
                    let admission = Arc::new(AdmissionController::default());
                    admission.set_admission(policy);
                    let card = Arc::new(Card {
                        capacity: 1000,
                        used: AtomicU64::new(0),
                    });
                    let next = AtomicUsize::new(0);
                    std::thread::scope(|scope| {
                        for thread in 0..threads {
                            let (admission, card, next) = (&admission, &card, &next);
                            scope.spawn(move || {
                                let mut random = SmallRng::seed_from_u64(seed * 100 + thread);
                                while next.fetch_add(1, Ordering::Relaxed) < QUERIES {
                                    query(admission, card, &mut random);
                                }
                            });
                        }
                    });
                    (admission, card)
                });
                assert_eq!(
                    admission.queries(),
                    [],
                    "{threads} threads, {policy:?}, seed {seed}"
                );
                assert_eq!(card.used.load(Ordering::SeqCst), 0);
            }
        }
    }
}
