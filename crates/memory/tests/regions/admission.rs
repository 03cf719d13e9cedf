//! Admission control: the queries that are admitted beside others, their order, and that a query cancelled
//! while it waits has no further effect.

use crate::watched;
use galatea_memory::regions::{
    Admission, AdmissionController, AdmissionTicket, Demand, PipelineName, Priority, QueryInfo,
};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

fn demand(weighted: u64, peak: u64, regions: &[(usize, u64)]) -> Demand {
    Demand {
        weighted,
        peak,
        regions: regions.to_vec(),
        follows: false,
    }
}

fn working(bytes: u64) -> Demand {
    demand(bytes, bytes, &[])
}

/// Begins a query that must be admitted at once.
fn begun<'t>(admission: &'t AdmissionController, demand: Demand, capacity: u64) -> AdmissionTicket<'t> {
    admission
        .begin(
            PipelineName::new(0, "begun"),
            Priority::Normal,
            demand,
            capacity,
            &AtomicBool::new(false),
        )
        .unwrap()
}

/// Begins a query if it is admitted without waiting.
fn at_once<'t>(
    admission: &'t AdmissionController,
    demand: Demand,
    capacity: u64,
) -> Option<AdmissionTicket<'t>> {
    let cancelled = AtomicBool::new(false);
    let waits =
        |query: &QueryInfo| &*query.pipeline.name == "at once" && query.state == "waiting for its turn";
    std::thread::scope(|scope| {
        let begins = scope.spawn(|| {
            admission.begin(
                PipelineName::new(0, "at once"),
                Priority::Normal,
                demand,
                capacity,
                &cancelled,
            )
        });
        // A query that arrives is admitted or waits. Nothing happens here that could admit it later.
        while !begins.is_finished() && !admission.queries().iter().any(waits) {
            std::thread::sleep(Duration::from_millis(1));
        }
        cancelled.store(true, Ordering::Relaxed);
        begins.join().unwrap()
    })
}

/// The states of the queries, by arrival.
fn states(admission: &AdmissionController) -> Vec<&'static str> {
    admission.queries().iter().map(|query| query.state).collect()
}

/// Waits for that number of queries.
fn until(admission: &AdmissionController, count: usize) {
    while admission.queries().len() != count {
        std::thread::sleep(Duration::from_millis(1));
    }
}

const POLICIES: [Admission; 7] = [
    Admission::Auto,
    Admission::Working,
    Admission::Weight,
    Admission::Peak,
    Admission::Fixed(0),
    Admission::Fixed(1),
    Admission::Fixed(3),
];

#[test]
fn query_is_always_admitted_if_none_runs() {
    watched(|| {
        for policy in POLICIES {
            let admission = AdmissionController::default();
            admission.set_admission(policy);
            for demand in [working(0), working(1000), demand(5, 1 << 60, &[(1, 1 << 60)])] {
                let ticket = begun(&admission, demand, 10);
                assert_eq!(states(&admission), ["running"], "{policy:?}");
                drop(ticket);
                assert_eq!(states(&admission), [""; 0]);
            }
        }
    });
}

#[test]
fn device_is_free_soon_only_beside_brief_queries() {
    watched(|| {
        let admission = AdmissionController::default();
        assert!(admission.are_brief(), "no query runs");
        let brief = begun(&admission, working(1), 10);
        assert!(brief.is_alone() && !admission.are_brief());
        brief.set_brief();
        assert!(admission.are_brief());
        let long = begun(&admission, working(1), 10);
        assert!(!admission.are_brief() && !brief.is_alone());
        drop(long);
        assert!(admission.are_brief() && brief.is_alone());
    });
}

#[test]
fn queries_are_admitted_exactly_when_they_fit() {
    let weight = Admission::Weight;
    let peak = Admission::Peak;
    let auto = Admission::Auto;
    let (small, large) = (working(40), demand(40, 70, &[]));
    let (one, other) = (demand(10, 10, &[(1, 50)]), demand(10, 10, &[(2, 50)]));
    // The policy, the running queries, the arriving one, and the least capacity that admits it.
    let table: Vec<(Admission, Vec<Demand>, Demand, u64)> = vec![
        (weight, vec![small.clone()], working(60), 100),
        (weight, vec![small.clone(), small.clone()], working(1), 81),
        (weight, vec![large.clone()], large.clone(), 80),
        (peak, vec![large.clone()], large.clone(), 140),
        (peak, vec![small.clone()], large.clone(), 110),
        // A region of both counts once; regions of only one query count for both.
        (weight, vec![one.clone()], one.clone(), 70),
        (weight, vec![one.clone()], other.clone(), 120),
        (
            weight,
            vec![one.clone(), other.clone()],
            demand(0, 0, &[(1, 50), (2, 50)]),
            120,
        ),
        (
            weight,
            vec![one.clone(), other.clone()],
            demand(0, 0, &[(1, 50), (3, 7)]),
            127,
        ),
        (peak, vec![one.clone()], one.clone(), 70),
        // Two run regardless of the regions that they read, and beside them those that read a sixteenth of
        // the device.
        (auto, vec![one.clone()], other.clone(), 20),
        (
            auto,
            vec![one.clone(), other.clone()],
            demand(10, 10, &[(3, 50)]),
            180,
        ),
        (
            auto,
            vec![one.clone(), other.clone()],
            demand(1, 1, &[(3, 5)]),
            80,
        ),
        (Admission::Working, vec![one.clone(), other], one, 30),
    ];
    watched(move || {
        for (number, (policy, running, comes, capacity)) in table.into_iter().enumerate() {
            let admission = AdmissionController::default();
            let mut tickets: Vec<_> = (running.iter())
                .map(|demand| begun(&admission, demand.clone(), 1 << 40))
                .collect();
            admission.set_admission(policy);
            assert!(
                at_once(&admission, comes.clone(), capacity - 1).is_none(),
                "row {number}"
            );
            assert_eq!(admission.queries().len(), running.len(), "row {number}");
            let ticket = at_once(&admission, comes.clone(), capacity);
            assert!(ticket.is_some(), "row {number}");
            drop(ticket);
            // After all others have ended, the query is always admitted.
            tickets.clear();
            assert!(at_once(&admission, comes, capacity - 1).is_some(), "row {number}");
        }
    });
}

#[test]
fn fixed_admission_ignores_memory_demand() {
    watched(|| {
        for most in 1..4 {
            let admission = AdmissionController::default();
            admission.set_admission(Admission::Fixed(most));
            let mut tickets: Vec<_> = (0..most)
                .map(|_| at_once(&admission, working(1000), 10).unwrap())
                .collect();
            assert!(at_once(&admission, working(0), 10).is_none(), "{most}");
            tickets.pop();
            assert!(at_once(&admission, working(1000), 10).is_some(), "{most}");
        }
    });
}

/// A running query's update of its demand takes effect at once.
#[test]
fn demand_updates_take_effect_immediately() {
    watched(|| {
        let admission = AdmissionController::default();
        let ticket = begun(&admission, working(100), 100);
        assert!(at_once(&admission, working(50), 100).is_none());
        ticket.update(working(51));
        assert!(at_once(&admission, working(50), 100).is_none());
        ticket.update(working(50));
        assert_eq!(admission.queries()[0].demand, 50);
        assert!(at_once(&admission, working(50), 100).is_some());
        ticket.update(demand(50, 60, &[(1, 7)]));
        ticket.update_working(30, 40);
        assert_eq!(admission.queries()[0].demand, 37);
        assert!(at_once(&admission, working(71), 100).is_none());
        assert!(at_once(&admission, working(70), 100).is_some());
    });
}

/// Queries that all fit, but only one at a time, run in the order of arrival.
#[test]
fn queries_are_admitted_in_order_of_arrival() {
    watched(|| {
        for policy in [Admission::Fixed(1), Admission::Weight, Admission::Peak] {
            for _ in 0..5 {
                let admission = Arc::new(AdmissionController::default());
                admission.set_admission(policy);
                let order = Arc::new(Mutex::new(Vec::new()));
                let holder = begun(&admission, working(80), 100);
                let waiting: Vec<_> = (0..8)
                    .map(|number| {
                        let (its, order) = (Arc::clone(&admission), Arc::clone(&order));
                        let thread = std::thread::spawn(move || {
                            let ticket = begun(&its, working(80), 100);
                            order.lock().unwrap().push(number);
                            drop(ticket);
                        });
                        until(&admission, number + 2);
                        thread
                    })
                    .collect();
                drop(holder);
                waiting.into_iter().for_each(|thread| thread.join().unwrap());
                let order = order.lock().unwrap();
                assert_eq!(*order, [0, 1, 2, 3, 4, 5, 6, 7], "{policy:?}");
            }
        }
    });
}

/// With hundreds waiting, a decision wakes only the admitted query: 400 queries with four updates each, one
/// at a time.
#[test]
fn hundreds_of_waiting_queries_are_admitted_one_by_one() {
    watched(|| {
        for policy in [Admission::Fixed(1), Admission::Weight, Admission::Working] {
            let admission = AdmissionController::default();
            admission.set_admission(policy);
            let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
            std::thread::scope(|scope| {
                for number in 0..400 {
                    let (admission, running, most) = (&admission, &running, &most);
                    scope.spawn(move || {
                        let ticket = begun(admission, demand(60, 60, &[(number % 7, 10)]), 100);
                        most.fetch_max(1 + running.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
                        (0..4).for_each(|_| ticket.update_working(60, 60));
                        running.fetch_sub(1, Ordering::SeqCst);
                    });
                }
            });
            assert_eq!(most.into_inner(), 1, "{policy:?}");
            assert!(admission.queries().is_empty());
        }
    });
}

/// The first waiting query is overtaken by those that fit, at most sixteen times.
#[test]
fn overtaking_is_bounded() {
    watched(|| {
        let admission = Arc::new(AdmissionController::default());
        let holder = begun(&admission, working(50), 100);
        let its = Arc::clone(&admission);
        let first = std::thread::spawn(move || {
            let ticket = begun(&its, working(60), 100);
            std::thread::sleep(Duration::from_millis(40));
            drop(ticket);
        });
        until(&admission, 2);
        for number in 0..16 {
            assert!(at_once(&admission, working(10), 100).is_some(), "{number}");
        }
        assert_eq!(states(&admission), ["running", "waiting for its turn"]);
        assert!(
            at_once(&admission, working(10), 100).is_none(),
            "overtaken a seventeenth time"
        );
        drop(holder);
        first.join().unwrap();
        assert!(at_once(&admission, working(10), 100).is_some());
    });
}

/// A waiting query that is cancelled leaves the queue and blocks no other.
#[test]
fn cancelled_query_leaves_the_queue() {
    watched(|| {
        let admission = Arc::new(AdmissionController::default());
        let _holder = begun(&admission, working(50), 100);
        let cancelled = Arc::new(AtomicBool::new(false));
        let (its, flag) = (Arc::clone(&admission), Arc::clone(&cancelled));
        let first = std::thread::spawn(move || {
            its.begin(
                PipelineName::new(0, "first"),
                Priority::Normal,
                working(60),
                100,
                &flag,
            )
            .is_none()
        });
        until(&admission, 2);
        let info = admission.queries().swap_remove(1);
        assert_eq!(
            (&*info.pipeline.name, info.state, info.demand),
            ("first", "waiting for its turn", 60)
        );
        for _ in 0..16 {
            drop(begun(&admission, working(1), 100));
        }
        let its = Arc::clone(&admission);
        let second = std::thread::spawn(move || {
            its.begin(
                PipelineName::new(0, "second"),
                Priority::Normal,
                working(1),
                100,
                &AtomicBool::new(false),
            )
            .is_some()
        });
        until(&admission, 3);
        cancelled.store(true, Ordering::Relaxed);
        assert!(first.join().unwrap(), "it had begun");
        assert!(second.join().unwrap());
        assert_eq!(states(&admission), ["running"]);
    });
}

/// Starts a query that waits, and records when it runs.
fn waits(
    admission: &Arc<AdmissionController>,
    order: &Arc<Mutex<Vec<(Priority, usize)>>>,
    priority: Priority,
    number: usize,
) -> std::thread::JoinHandle<()> {
    let (its, order) = (Arc::clone(admission), Arc::clone(order));
    let count = admission.queries().len();
    let thread = std::thread::spawn(move || {
        let never = AtomicBool::new(false);
        let ticket = its.begin(PipelineName::new(0, "waits"), priority, working(80), 100, &never);
        order.lock().unwrap().push((priority, number));
        drop(ticket);
    });
    until(admission, count + 1);
    thread
}

/// Urgent queries are admitted first, those of equal priority in the order of arrival.
#[test]
fn urgent_queries_are_admitted_first() {
    use Priority::{High, Low, Normal};
    watched(|| {
        for policy in [
            Admission::Fixed(1),
            Admission::Working,
            Admission::Weight,
            Admission::Peak,
        ] {
            let admission = Arc::new(AdmissionController::default());
            admission.set_admission(policy);
            let order = Arc::default();
            let holder = begun(&admission, working(80), 100);
            let comes = [Low, Normal, High, Low, Normal, High];
            let threads: Vec<_> = (comes.into_iter().enumerate())
                .map(|(number, priority)| waits(&admission, &order, priority, number))
                .collect();
            drop(holder);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            let expected = [(High, 2), (High, 5), (Normal, 1), (Normal, 4), (Low, 0), (Low, 3)];
            assert_eq!(*order.lock().unwrap(), expected, "{policy:?}");
        }
    });
}

/// However many urgent queries arrive, a waiting query is overtaken by sixteen of them at most.
#[test]
fn urgent_queries_overtake_at_most_sixteen_times() {
    watched(|| {
        let admission = Arc::new(AdmissionController::default());
        admission.set_admission(Admission::Fixed(1));
        let order = Arc::default();
        let holder = begun(&admission, working(80), 100);
        let mut threads = vec![waits(&admission, &order, Priority::Low, 0)];
        threads.extend((1..=40).map(|number| waits(&admission, &order, Priority::High, number)));
        drop(holder);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let order = order.lock().unwrap();
        let place = order.iter().position(|(priority, _)| *priority == Priority::Low);
        assert_eq!(place, Some(16), "{order:?}");
        let urgent: Vec<usize> = order
            .iter()
            .filter(|(priority, _)| *priority == Priority::High)
            .map(|(_, number)| *number)
            .collect();
        assert!(urgent.is_sorted(), "{order:?}");
    });
}

#[test]
fn queries_that_follow_a_running_one_are_admitted_beside_it() {
    let admission = AdmissionController::default();
    let follows = |working, regions: &[(usize, u64)]| Demand {
        follows: true,
        ..demand(working, working, regions)
    };
    let scan = [(1, 400), (2, 400), (3, 400)];
    let leader = begun(&admission, follows(10, &scan), 1000);
    let _second = begun(&admission, demand(10, 10, &[(4, 800)]), 1000);
    // Two queries run, and their columns exceed the device.
    assert!(
        at_once(&admission, demand(10, 10, &scan), 1000).is_none(),
        "it needs memory for columns"
    );
    assert!(
        at_once(&admission, follows(10, &[(1, 400), (4, 800)]), 1000).is_none(),
        "no query reads both"
    );
    assert!(
        at_once(&admission, follows(10, &[(4, 800)]), 1000).is_none(),
        "that query has no followers"
    );
    assert!(
        at_once(&admission, follows(990, &scan), 1000).is_none(),
        "working memory does not fit"
    );
    let others = [&scan[..], &scan[1..]].map(|regions| at_once(&admission, follows(10, regions), 1000));
    assert!(others.iter().all(Option::is_some));
    drop(leader);
    assert!(
        at_once(&admission, follows(10, &scan), 1000).is_some(),
        "the follower leads now"
    );
    drop(others);
    admission.set_admission(Admission::Weight);
    let _leader = begun(&admission, follows(10, &[]), 1000);
    assert!(
        at_once(&admission, follows(10, &scan), 1000).is_none(),
        "regions count"
    );
}
