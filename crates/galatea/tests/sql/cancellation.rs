//! Streams of queries are dropped while the query runs. The device is idle soon afterwards, regardless of the
//! remaining work, and all memory is freed.

use crate::compare::Pair;
use crate::data::{Shape, batch};
use datafusion::physical_plan::{collect, execute_stream};
use futures::StreamExt;
use galatea::{EmulatorOptions, GalateaConfig};
use galatea_device::{DriverCall, Faults};
use galatea_engine::device::DeviceRuntime;
use galatea_engine::session::Session;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of chunks of the table.
const CHUNKS: usize = 1200;

/// Number of small chunks that a launch reads (`transfer/chunks.rs`).
const TOGETHER: usize = 16;

/// Number of launches that may be queued ahead (`transfer/chunks.rs`), plus some for the running ones.
const AHEAD: u64 = 4 + 8;

const QUERIES: &[&str] = &[
    "SELECT count(*), sum(i32), min(i64), max(d18) FROM t WHERE v >= 0",
    "SELECT low, flag, count(*), sum(i64), sum(d9) FROM t GROUP BY low, flag",
    "SELECT i32, i64 FROM t WHERE v % 3 = 1",
];

/// A session that streams every chunk, and the handle that counts its launches.
fn bed() -> (Pair, Faults) {
    let faults = Faults::default();
    let emulator = EmulatorOptions {
        faults: faults.clone(),
        ..EmulatorOptions::default()
    };
    let pair = Pair::emulated(
        emulator,
        &[
            ("galatea.tuning.chunk_rows", "100"),
            ("galatea.cache.device", "false"),
            ("galatea.tuning.block_threads", "32"),
            ("galatea.tuning.min_rows", "0"),
        ],
    );
    pair.table("t", &[batch(100 * CHUNKS, 7, Shape::Ordinary)]);
    (pair, faults)
}

fn device(pair: &Pair) -> Arc<DeviceRuntime> {
    let state = pair.gpu.state();
    let config = GalateaConfig::of(state.config_options());
    let session: Arc<Session> = state.config().get_extension().expect("a Galatea session");
    session.engine().device(&config).expect("the emulated device")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_result_stream_stops_device_work() {
    let (pair, faults) = bed();
    let seed: u64 = rand::rng().random();
    println!("seed {seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let mut cut_short = 0;
    for sql in QUERIES {
        let frame = pair.gpu.sql(sql).await.expect("a plan");
        let plan = frame.create_physical_plan().await.expect("a plan");
        // This run loads columns and compiles kernels.
        collect(Arc::clone(&plan), pair.gpu.task_ctx())
            .await
            .expect("an answer");
        let (runtime, start) = (device(&pair), Instant::now());
        faults.clear();
        collect(Arc::clone(&plan), pair.gpu.task_ctx())
            .await
            .expect("an answer");
        let (whole, launches) = (start.elapsed(), faults.calls(DriverCall::Launch));
        let least = (CHUNKS / TOGETHER) as u64;
        assert!(launches >= least, "{launches} launches\n{sql}");
        runtime.clear().expect("evicted");
        let (budget, level) = (runtime.device().budget(), runtime.device().budget().used());
        for _ in 0..8 {
            let context = format!("seed {seed}\n{sql}");
            faults.clear();
            let plan = Arc::clone(&plan).reset_state().expect("a plan to run again");
            let mut stream = execute_stream(plan, pair.gpu.task_ctx()).expect("a stream");
            let share = random.random_range(0.0..0.9);
            let first = tokio::time::timeout(whole.mul_f64(share), stream.next()).await;
            let start = Instant::now();
            let done = faults.launches_done();
            drop(stream);
            let turns = runtime.memory().admission();
            while !turns.queries().is_empty() {
                assert!(
                    start.elapsed() < Duration::from_secs(20),
                    "{context}: still there"
                );
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let took = start.elapsed();
            if first.is_ok() {
                continue;
            }
            // The queued launches have run, so none could still use the memory.
            let idle = Instant::now();
            runtime.device().synchronize().expect("idle");
            assert!(idle.elapsed() < Duration::from_millis(100), "{context}: not idle");
            runtime.clear().expect("evicted");
            assert_eq!(budget.used(), level, "{context}");
            let (queued, after) = (faults.calls(DriverCall::Launch), faults.launches_done());
            println!(
                "{after} of {launches} launches, {} after the cancellation, {took:?} of {whole:?}",
                after - done
            );
            assert_eq!(queued, after, "{context}: launches that were not waited for");
            assert!(
                after - done <= AHEAD,
                "{context}: {} launches after the cancellation",
                after - done
            );
            cut_short += u32::from(after < launches);
        }
    }
    assert!(cut_short > 0, "no query was cancelled in time");
}
