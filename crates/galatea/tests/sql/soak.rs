//! Many clients for some time, with driver calls that fail and queries that are cancelled at random. Each
//! query returns the CPU's answer or a typed error, and at the end all memory has been released.
//!
//! `GALATEA_SOAK_SECONDS` and `GALATEA_SOAK_CLIENTS` change the duration and the number of clients.

use crate::compare::same;
use crate::faults::{Bed, QUERIES, is_device_error};
use datafusion::prelude::SessionContext;
use galatea_device::{DriverCall, FaultCode};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time that queries may take after the last one has begun.
const WATCHDOG: Duration = Duration::from_secs(120);

/// Queries of the clients by their end.
#[derive(Debug, Default)]
struct Ends {
    answered: u64,
    cancelled: u64,
    failed: u64,
}

#[expect(
    clippy::disallowed_methods,
    reason = "the variables belong to this test, and its documentation lists them"
)]
fn setting(name: &str, otherwise: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(otherwise, |value| value.parse().expect(name))
}

/// Sends random queries until `stop`, and drops a third of them while they run.
async fn client(ctx: SessionContext, bed: Arc<Bed>, stop: Arc<AtomicBool>, seed: u64) -> Ends {
    let (mut random, mut ends) = (SmallRng::seed_from_u64(seed), Ends::default());
    while !stop.load(Ordering::Relaxed) {
        let number = random.random_range(0..QUERIES.len());
        let sql = QUERIES[number];
        let query = async { ctx.sql(sql).await?.collect().await };
        let patience = match random.random_ratio(1, 3) {
            true => Duration::from_micros(random.random_range(0..50_000)),
            false => WATCHDOG,
        };
        match tokio::time::timeout(patience, query).await {
            Err(_) if patience < WATCHDOG => ends.cancelled += 1,
            Err(_) => panic!("seed {seed}: a query hangs\n{sql}"),
            Ok(Ok(rows)) => {
                same(&bed.expected[number], &rows)
                    .unwrap_or_else(|difference| panic!("seed {seed}\n{sql}\n{difference}"));
                ends.answered += 1;
            }
            Ok(Err(error)) => {
                let text = error.to_string();
                assert!(is_device_error(&text), "seed {seed}\n{sql}\n{text}");
                ends.failed += 1;
            }
        }
    }
    ends
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clients_with_faults_and_cancellations_leave_nothing_behind() {
    let time = Duration::from_secs(setting("GALATEA_SOAK_SECONDS", 10));
    let clients = setting("GALATEA_SOAK_CLIENTS", 64);
    let seed: u64 = rand::rng().random();
    println!("seed {seed}");
    let settings = [
        ("galatea.memory.gpu_limit", "2 MiB"),
        ("galatea.cache.shared_results", "false"),
    ];
    let bed = Arc::new(Bed::new(&settings).await);
    let all = async |context: &str| {
        for number in 0..QUERIES.len() {
            bed.good(number, false, context).await;
        }
    };
    all("before").await;
    let host = || bed.store_bytes();
    let before = (bed.level(), host());
    let stop = Arc::new(AtomicBool::new(false));
    let running: Vec<_> = (0..clients)
        .map(|number| {
            let ctx = SessionContext::new_with_state(bed.pair.gpu.state());
            let seed = seed.wrapping_add(number + 1);
            tokio::spawn(client(ctx, Arc::clone(&bed), Arc::clone(&stop), seed))
        })
        .collect();
    let (mut random, start, mut injected) = (SmallRng::seed_from_u64(seed), Instant::now(), 0);
    while start.elapsed() < time {
        let call = *DriverCall::ALL.choose(&mut random).expect("calls");
        let code = match random.random_ratio(1, 20) {
            true => FaultCode::Lost,
            false => *[FaultCode::OutOfMemory, FaultCode::Refused]
                .choose(&mut random)
                .expect("codes"),
        };
        let (skipped, times) = (random.random_range(0..20), random.random_range(1..=3));
        bed.faults.fail(call, skipped, times, code);
        tokio::time::sleep(Duration::from_millis(random.random_range(10..200))).await;
        injected += bed.faults.injected();
        bed.faults.clear();
    }
    stop.store(true, Ordering::Relaxed);
    let ended = tokio::time::timeout(WATCHDOG, futures::future::join_all(running)).await;
    let mut ends = Ends::default();
    for client in ended.unwrap_or_else(|_| panic!("seed {seed}: a client hangs")) {
        let of_client = client.unwrap_or_else(|panic| panic!("seed {seed}: {panic}"));
        ends.answered += of_client.answered;
        ends.cancelled += of_client.cancelled;
        ends.failed += of_client.failed;
    }
    println!(
        "{clients} clients, {:.0?}: {ends:?}, {injected} calls failed",
        start.elapsed()
    );
    // A lost device is opened again after a while.
    let reopened = Instant::now();
    let run = async || bed.pair.gpu.sql(QUERIES[0]).await?.collect().await;
    while let Err(error) = run().await {
        assert!(reopened.elapsed() < WATCHDOG, "seed {seed}: {error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    all("after").await;
    assert_eq!((bed.level(), host()), before, "seed {seed}");
    assert!(
        ends.answered > 0 && ends.cancelled > 0 && injected > 0,
        "{ends:?}, {injected}"
    );
}
