//! Driver calls that fail while two queries run concurrently. Each query returns the CPU's answer or, if
//! fallback is forbidden, a typed error. It never returns a wrong result, no query waits for ever, all device
//! memory is freed, and the next query uses the device normally.

use crate::compare::{Pair, answer, same};
use crate::data::{Shape, batch};
use crate::joins::text;
use crate::parts::{far, table};
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray, UInt8Array};
use galatea::{EmulatorOptions, GalateaConfig, QueryDevice};
use galatea_device::{DriverCall, FaultCode, Faults};
use galatea_engine::device::DeviceRuntime;
use galatea_engine::session::Session;
use rand::rngs::SmallRng;
use rand::seq::index::sample;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::time::Duration;

/// A sink of each kind, a build side, a query that streams, and a join that may run out of core.
pub(crate) const QUERIES: &[&str] = &[
    "SELECT i64, u64, count(*) FROM t GROUP BY i64, u64",
    "SELECT i32, i64, low FROM t WHERE v % 3 = 1",
    "SELECT d.name, count(*), sum(t.v), min(t.d18) FROM t JOIN d ON t.u8 = d.id GROUP BY d.name",
    "SELECT count(*), sum(i32), min(i64), max(d18) FROM t WHERE v >= 0",
    "SELECT count(*), count(r.k), sum(r.v), max(r.paid), sum(s.v) FROM s LEFT JOIN r ON s.k = r.k",
    "SELECT count(*), count(r.k), sum(r.v), sum(s.v) FROM s LEFT JOIN r ON s.k % 2999 = r.k % 2999 AND r.v > s.v",
    "SELECT s.k, s.v, r.v FROM s LEFT JOIN r ON s.k = r.k",
    "SELECT k, count(*), sum(v) FROM r GROUP BY k",
    "SELECT count(*), max(n), sum(total) FROM (SELECT k, count(*) AS n, sum(v) AS total FROM r GROUP BY k)",
    "SELECT count(*), count(r.k), sum(r.v), sum(s.v) FROM s FULL JOIN r ON s.v = CASE WHEN r.v < 9000 THEN 6 ELSE r.v END AND r.v > s.v",
];

/// The concurrent query.
const BESIDE: &str = "SELECT low, flag, sum(d9), count(*) FROM t GROUP BY low, flag";

const CODES: [FaultCode; 3] = [FaultCode::OutOfMemory, FaultCode::Refused, FaultCode::Lost];

/// The time limit for two small queries.
const WATCHDOG: Duration = Duration::from_secs(20);

/// Number of calls of a kind that fail, one by one. Of a larger number of calls, a sample of this size fails.
const EACH: usize = 6;

/// Whether a message is that of a typed error of a device.
pub(crate) fn is_device_error(message: &str) -> bool {
    let parts = ["CUDA call", "out of device memory", "kernel failed", "is lost"];
    parts.iter().any(|part| message.contains(part))
}

/// Two sessions with their own device, and the handle that injects faults.
pub(crate) struct Bed {
    pub(crate) pair: Pair,
    pub(crate) faults: Faults,
    pub(crate) expected: Vec<Vec<RecordBatch>>,
    beside: Vec<RecordBatch>,
}

impl Bed {
    pub(crate) async fn new(settings: &[(&str, &str)]) -> Self {
        let faults = Faults::default();
        let emulator = EmulatorOptions {
            faults: faults.clone(),
            ..EmulatorOptions::default()
        };
        let mut all = vec![
            ("galatea.tuning.chunk_rows", "400"),
            ("galatea.tuning.block_threads", "32"),
            ("galatea.tuning.min_rows", "0"),
            ("galatea.aggregate.strategy", "hash"),
            ("galatea.tuning.hash_slots", "64"),
        ];
        all.extend(settings);
        let pair = Pair::emulated(emulator, &all);
        pair.table("t", &[batch(2000, 7, Shape::Ordinary)]);
        let ids: ArrayRef = Arc::new(UInt8Array::from_iter_values(0..=255));
        let names: ArrayRef = Arc::new(StringArray::from_iter_values(
            (0..=255).map(|id| format!("n{}", id % 9)),
        ));
        let dimension = RecordBatch::try_from_iter([("id", ids), ("name", names)]).expect("two columns");
        pair.table("d", &[dimension]);
        pair.table("r", &[table(9000, true, |row| far(row * 7919 % 9000))]);
        pair.table("s", &[table(5000, true, |row| far(row * 31 % 9500))]);
        let mut expected = Vec::new();
        for sql in QUERIES {
            expected.push(answer(&pair.cpu, sql).await);
        }
        let beside = answer(&pair.cpu, BESIDE).await;
        Self {
            pair,
            faults,
            expected,
            beside,
        }
    }

    fn device(&self) -> Arc<DeviceRuntime> {
        let config = GalateaConfig::of(self.pair.gpu.state().config_options());
        let session = self.session();
        session.engine().device(&config).expect("the emulated device")
    }

    fn session(&self) -> Arc<Session> {
        let state = self.pair.gpu.state();
        state.config().get_extension().expect("a Galatea session")
    }

    /// Bytes of the store on the host.
    pub(crate) fn store_bytes(&self) -> u64 {
        self.session().engine().store().memory_used()
    }

    /// Bytes in use after all memory is released that no query uses: by the budget, and by the driver.
    pub(crate) fn level(&self) -> (u64, u64) {
        let runtime = self.device();
        runtime.clear().expect("evicted");
        let device = runtime.device();
        device.synchronize().expect("idle");
        assert!(runtime.memory().admission().queries().is_empty());
        assert_eq!(runtime.memory().bytes(), 0);
        let pool = device.memory_use().expect("known").pool_used;
        (device.budget().used(), pool)
    }

    /// Checks that a query returns the right answer, and uses the device unless it may have been lost.
    pub(crate) async fn good(&self, number: usize, placed: bool, context: &str) {
        let sql = QUERIES[number];
        let frame = self.pair.gpu.sql(sql).await.expect("a plan");
        let plan = frame.create_physical_plan().await.expect("a plan");
        let task = self.pair.gpu.task_ctx();
        let rows = datafusion::physical_plan::collect(Arc::clone(&plan), task).await;
        let rows = rows.unwrap_or_else(|error| panic!("{context}\n{sql}\n{error}"));
        same(&self.expected[number], &rows)
            .unwrap_or_else(|difference| panic!("{context}\n{sql}\n{difference}"));
        let report = galatea::query_report(&plan).expect("a report");
        assert!(
            !placed || (report.device == QueryDevice::Emulated && report.fell_back == 0),
            "{context}\n{sql}\n{:?}",
            report.reasons
        );
    }

    /// Runs the query and [`BESIDE`] concurrently on an empty device. Returns the number of failed queries.
    async fn both(&self, number: usize, context: &str, errors_allowed: bool) -> u32 {
        let one = |sql: &'static str| {
            let ctx = self.pair.gpu.clone();
            tokio::spawn(async move { ctx.sql(sql).await?.collect().await })
        };
        let (first, second) = (one(QUERIES[number]), one(BESIDE));
        let ended = tokio::time::timeout(WATCHDOG, async { (first.await, second.await) }).await;
        let (first, second) = ended.unwrap_or_else(|_| panic!("{context}: a query hangs"));
        let mut failed = 0;
        for (outcome, expected) in [(first, &self.expected[number]), (second, &self.beside)] {
            match outcome.unwrap_or_else(|panic| panic!("{context}: {panic}")) {
                Ok(rows) => {
                    same(expected, &rows).unwrap_or_else(|difference| panic!("{context}\n{difference}"));
                }
                Err(error) => {
                    assert!(errors_allowed, "{context}: {error}");
                    let text = error.to_string();
                    assert!(is_device_error(&text), "{context}: {text}");
                    failed += 1;
                }
            }
        }
        failed
    }

    /// Injects a fault into each of a query's calls, or a sample of them. Returns the numbers of failed calls
    /// and of failed queries.
    async fn campaign(
        &self,
        queries: &[usize],
        codes: &[FaultCode],
        times: u64,
        errors_allowed: bool,
    ) -> (u64, u32) {
        let seed: u64 = rand::rng().random();
        println!("seed {seed}");
        let mut random = SmallRng::seed_from_u64(seed);
        let (mut injected, mut failed) = (0, 0);
        for &number in queries {
            // This run compiles kernels and creates streams.
            self.good(number, true, "before").await;
            let _ = self.both(number, "before", false).await;
            let level = self.level();
            for call in DriverCall::ALL {
                self.faults.clear();
                let _ = self.both(number, "counting", false).await;
                let calls = self.faults.calls(call) as usize;
                let tried = match calls <= EACH {
                    true => (0..calls).collect(),
                    false => sample(&mut random, calls, EACH).into_vec(),
                };
                for before in tried {
                    let code = codes[(before + number) % codes.len()];
                    let context = format!(
                        "seed {seed}, query {number}: {times} calls {call:?} after {before} of {calls} return {code:?}"
                    );
                    self.faults.fail(call, before as u64, times, code);
                    failed += self.both(number, &context, errors_allowed).await;
                    injected += self.faults.injected();
                    self.faults.clear();
                    self.good(number, true, &context).await;
                    assert_eq!(self.level(), level, "{context}");
                }
            }
        }
        (injected, failed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn queries_survive_every_failing_call() {
    let bed = Bed::new(&[]).await;
    let (injected, _) = bed.campaign(&[0, 1, 2, 3], &CODES, 1, false).await;
    assert!(injected > 60, "{injected} calls failed");
}

/// Memory is so small that columns are streamed and memory is requested repeatedly.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn queries_survive_failing_calls_in_little_memory() {
    let bed = Bed::new(&[("galatea.memory.gpu_limit", "512 KiB")]).await;
    let (injected, _) = bed
        .campaign(&[0, 3], &[FaultCode::OutOfMemory, FaultCode::Refused], 3, false)
        .await;
    assert!(injected > 20, "{injected} calls failed");
}

/// A join is computed in partitions. `memory`: the limit of device memory. `shown`: by the plan.
async fn partitions_survive_failing_calls(query: usize, algorithm: &str, memory: &str, shown: &str) {
    let bed = Bed::new(&[
        ("galatea.memory.gpu_limit", memory),
        ("galatea.tuning.build_rows", "0"),
        ("galatea.tuning.chunk_rows", "1000"),
        ("galatea.join.algorithm", algorithm),
    ])
    .await;
    let plan = text(&bed.pair, &format!("EXPLAIN ANALYZE {}", QUERIES[query])).await;
    assert!(plan.contains(shown), "{plan}");
    let (injected, _) = bed
        .campaign(&[query], &[FaultCode::OutOfMemory, FaultCode::Refused], 1, false)
        .await;
    assert!(injected > 10, "{injected} calls failed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn out_of_core_joins_survive_failing_calls() {
    partitions_survive_failing_calls(4, "triton", "320 KiB", "sides partitioned once").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn out_of_core_joins_of_repeated_keys_survive_failing_calls() {
    partitions_survive_failing_calls(5, "triton", "640 KiB", "sides partitioned once").await;
}

/// The pipeline of a build side is repeated while the rows of earlier partitions wait for their reader.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn returned_rows_of_partitions_survive_failing_calls() {
    partitions_survive_failing_calls(6, "multipass", "320 KiB", "one after another").await;
}

/// The matches of a preserved row are merged over slices of the other side.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn merged_slices_survive_failing_calls() {
    partitions_survive_failing_calls(9, "multipass", "320 KiB", "slices of rows with equal keys").await;
}

/// The rows of groups are partitioned, spilled and read back, and the groups are returned.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn returned_groups_in_partitions_survive_failing_calls() {
    partitions_survive_failing_calls(7, "triton", "640 KiB", "rows partitioned once").await;
}

/// The same, with groups that another pipeline reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn groups_in_partitions_survive_failing_calls() {
    partitions_survive_failing_calls(8, "triton", "640 KiB", "rows partitioned once").await;
}

/// Copies fail while kernels wait for their chunks.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn queries_survive_failing_calls_in_persistent_scans() {
    let bed = Bed::new(&[
        ("galatea.tuning.persistent_scan", "on"),
        ("galatea.cache.device", "false"),
        ("galatea.tuning.chunk_rows", "500"),
    ])
    .await;
    let (injected, _) = bed.campaign(&[0, 3], &CODES, 1, false).await;
    assert!(injected > 30, "{injected} calls failed");
}

/// Without fallback to the CPU, the error names the failed call.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn failing_calls_without_fallback_are_typed_errors() {
    let bed = Bed::new(&[("galatea.fallback", "error")]).await;
    let (injected, failed) = bed.campaign(&[1], &CODES, 1, true).await;
    assert!(
        injected > 20 && failed > 10,
        "{injected} calls, {failed} queries failed"
    );
}

/// Calls of a session's first query, which open the device, create streams and load modules.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_first_query_survives_failing_calls() {
    let mut opened = 0;
    for call in [
        DriverCall::CreateStream,
        DriverCall::LoadModule,
        DriverCall::RegisterHost,
        DriverCall::CreateEvent,
    ] {
        for before in 0..6 {
            let code = CODES[before as usize % CODES.len()];
            let context = format!("call {before} {call:?} returns {code:?}");
            let bed = Bed::new(&[]).await;
            bed.faults.fail(call, before, 1, code);
            bed.both(2, &context, true).await;
            bed.faults.clear();
            // If a device is selected by name and cannot be opened, this is an error for a while. Then
            // opening is retried.
            if bed.both(2, &context, true).await == 0 {
                bed.good(2, true, &context).await;
                opened += 1;
            }
        }
    }
    assert!(opened > 12, "{opened} devices");
}
