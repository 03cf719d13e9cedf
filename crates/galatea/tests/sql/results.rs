//! Results larger than `galatea.memory.result_buffer`: their rows are read while the query runs.

use crate::compare::{Pair, same};
use crate::data::{Shape, batch};
use crate::swapping::device;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt};
use galatea::{EmulatorOptions, QueryDevice};
use galatea_device::{DriverCall, FaultCode, Faults};
use galatea_memory::regions::{Demand, PipelineName, Priority};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Number of chunks of the table.
const CHUNKS: usize = 400;

const ROWS: &str = "SELECT i32, i64, low FROM t WHERE v % 3 <> 1";

/// A session that streams every chunk and returns the rows of each launch, and the handle that counts its
/// launches.
fn bed(settings: &[(&str, &str)]) -> (Pair, Faults) {
    let faults = Faults::default();
    let emulator = EmulatorOptions {
        faults: faults.clone(),
        ..EmulatorOptions::default()
    };
    let mut all = vec![
        ("galatea.tuning.chunk_rows", "100"),
        ("galatea.cache.device", "false"),
        ("galatea.tuning.block_threads", "32"),
        ("galatea.tuning.min_rows", "0"),
        ("galatea.tuning.row_output", "direct"),
        ("galatea.memory.result_buffer", "64 KiB"),
    ];
    all.extend(settings);
    let pair = Pair::emulated(emulator, &all);
    pair.table("t", &[batch(100 * CHUNKS, 7, Shape::Ordinary)]);
    (pair, faults)
}

async fn start(ctx: &SessionContext, sql: &str) -> SendableRecordBatchStream {
    let frame = ctx.sql(sql).await.expect("a plan");
    frame.execute_stream().await.expect("a stream")
}

async fn answer(ctx: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    let rows = start(ctx, sql).await.try_collect().await;
    rows.unwrap_or_else(|error| panic!("{sql}\n{error}"))
}

/// The number of launches of a run of [`ROWS`] with compiled kernels. Each reads several chunks.
async fn launches(pair: &Pair, faults: &Faults) -> u64 {
    answer(&pair.gpu, ROWS).await;
    faults.clear();
    answer(&pair.gpu, ROWS).await;
    let launches = faults.calls(DriverCall::Launch);
    assert!(launches > CHUNKS as u64 / 20, "{launches} launches");
    launches
}

/// All batches of a stream, after a first one.
async fn rest(first: RecordBatch, stream: SendableRecordBatchStream) -> Vec<RecordBatch> {
    let rows: Result<Vec<_>, _> = stream.try_collect().await;
    [vec![first], rows.expect("the other rows")].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_results_are_complete_and_in_order() {
    for buffer in ["1 B", "1 KiB", "100 KiB", "auto"] {
        let (pair, _) = bed(&[("galatea.memory.result_buffer", buffer)]);
        for sql in [
            ROWS,
            "SELECT i64, u64, count(*), sum(v) FROM t GROUP BY i64, u64",
            "SELECT low, flag, count(*) FROM t GROUP BY low, flag",
            "SELECT a.v, b.i32 FROM t a JOIN t b ON a.v = b.v AND a.k = b.k",
            "SELECT i64, row_number() OVER (PARTITION BY low ORDER BY i64, v, i32) FROM t",
        ] {
            pair.check(sql, true, buffer).await;
        }
        let sorted = "SELECT i64, v, i32 FROM t ORDER BY i64, v, i32";
        let rows = answer(&pair.gpu, sorted).await;
        let expected = answer(&pair.cpu, sorted).await;
        let schema = expected[0].schema();
        let whole = |batches: &[RecordBatch]| concat_batches(&schema, batches);
        assert_eq!(
            whole(&rows).expect("one type"),
            whole(&expected).expect("one type"),
            "{buffer}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_stream_with_backpressure() {
    let (pair, faults) = bed(&[]);
    let (expected, all) = (answer(&pair.gpu, ROWS).await, launches(&pair, &faults).await);
    faults.clear();
    let mut stream = start(&pair.gpu, ROWS).await;
    let first = stream.next().await.expect("rows").expect("a batch");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let begun = faults.calls(DriverCall::Launch);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(faults.calls(DriverCall::Launch), begun, "it waits for its reader");
    assert!(begun < all, "{begun} of {all} launches for the first rows");
    same(&expected, &rest(first, stream).await).expect("the same rows");
    assert!(faults.calls(DriverCall::Launch) > begun);
    let report = galatea::last_query_report(&pair.gpu).expect("a report");
    assert_eq!(report.device, QueryDevice::Emulated);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_reader_does_not_block_other_queries() {
    let (pair, _) = bed(&[("galatea.memory.admission", "fix-1")]);
    let expected = answer(&pair.gpu, ROWS).await;
    let mut stream = start(&pair.gpu, ROWS).await;
    let first = stream.next().await.expect("rows").expect("a batch");
    let other = answer(&pair.gpu, "SELECT low, count(*) FROM t GROUP BY low");
    let other = tokio::time::timeout(Duration::from_secs(60), other).await;
    assert!(!other.expect("it had its turn").is_empty());
    same(&expected, &rest(first, stream).await).expect("the same rows");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_reader_ends_the_query() {
    let (pair, faults) = bed(&[]);
    let all = launches(&pair, &faults).await;
    faults.clear();
    let mut stream = start(&pair.gpu, ROWS).await;
    stream.next().await.expect("rows").expect("a batch");
    drop(stream);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let launched = faults.calls(DriverCall::Launch);
    assert!(launched < all, "{launched} of {all} launches");
    // Nothing of the previous query remains.
    pair.check("SELECT count(*), sum(v) FROM t", true, "the next")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_failures_before_the_first_rows_fall_back() {
    let (pair, faults) = bed(&[]);
    let last = launches(&pair, &faults).await - 2;
    faults.clear();
    faults.fail(DriverCall::Launch, last, u64::MAX, FaultCode::Refused);
    let rows: Result<Vec<_>, _> = start(&pair.gpu, ROWS).await.try_collect().await;
    let error = rows.expect_err("rows had been read").to_string();
    assert!(error.contains("galatea.memory.result_buffer"), "{error}");
    faults.clear();
    pair.check(ROWS, true, "after the failure").await;

    let (pair, faults) = bed(&[("galatea.memory.result_buffer", "auto")]);
    let expected = answer(&pair.gpu, ROWS).await;
    faults.fail(DriverCall::Launch, last, u64::MAX, FaultCode::Refused);
    same(&expected, &answer(&pair.gpu, ROWS).await).expect("the CPU's rows");
    assert!(faults.injected() > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn result_can_exceed_the_session_memory() {
    let environment = RuntimeEnvBuilder::new()
        .with_memory_limit(300 << 10, 1.0)
        .build_arc()
        .expect("an environment");
    let ctx = galatea::session()
        .with_emulated_device(EmulatorOptions::default())
        .with_setting("galatea.device", "emulated")
        .with_setting("galatea.fallback", "error")
        .with_setting("galatea.tuning.min_rows", "0")
        .with_setting("galatea.tuning.chunk_rows", "1000")
        .with_setting("galatea.cache.device", "false")
        .with_runtime(environment)
        .build()
        .expect("a session");
    let table = batch(100 * CHUNKS, 7, Shape::Ordinary);
    ctx.register_batch("t", table).expect("a table");
    let mut stream = start(&ctx, ROWS).await;
    let (mut rows, mut bytes) = (0, 0);
    while let Some(batch) = stream.next().await {
        let batch = batch.expect("a batch");
        rows += batch.num_rows();
        bytes += batch.get_array_memory_size();
    }
    assert!(
        rows > 10 * CHUNKS && bytes > 300 << 10,
        "{rows} rows, {bytes} bytes"
    );
}

/// The rows of a query, if it ran while the only thread for blocking work was occupied.
async fn runs_on_its_own_thread(ctx: &SessionContext, sql: &str) -> Option<Vec<RecordBatch>> {
    let (release, taken) = std::sync::mpsc::channel::<()>();
    let holder = tokio::task::spawn_blocking(move || taken.recv());
    let rows = tokio::time::timeout(Duration::from_millis(500), answer(ctx, sql)).await;
    drop(release);
    let _ = holder.await;
    rows.ok()
}

/// The rows of a query once it ran on its own thread. An earlier run must have been short, and the query
/// before must have ended, which takes several attempts on a busy machine.
async fn becomes_brief(pair: &Pair, sql: &str) -> Vec<RecordBatch> {
    for _ in 0..200 {
        pair.check(sql, true, "not known to be brief").await;
        if let Some(rows) = runs_on_its_own_thread(&pair.gpu, sql).await {
            return rows;
        }
    }
    panic!("on no attempt: {sql}")
}

/// A query that is predicted to be short runs on the caller's thread, which reads no rows meanwhile. It does
/// not wait for a reader, even if the result buffer is small.
#[test]
fn short_queries_run_on_the_callers_thread() {
    for current in [true, false] {
        let mut builder = match current {
            true => tokio::runtime::Builder::new_current_thread(),
            false => tokio::runtime::Builder::new_multi_thread(),
        };
        let runtime = builder.enable_all().worker_threads(2).max_blocking_threads(1);
        let runtime = runtime.build().expect("threads");
        runtime.block_on(async {
            let settings = [
                ("galatea.cache.device", "true"),
                ("galatea.tuning.chunk_rows", "1000"),
                ("galatea.memory.result_buffer", "1 B"),
                ("galatea.tuning.row_output", "auto"),
            ];
            let (pair, _) = bed(&settings);
            pair.table("few", &[batch(200, 11, Shape::Ordinary)]);
            for sql in [
                "SELECT count(*), sum(v), min(i64) FROM few",
                "SELECT low, count(*), sum(v) FROM few GROUP BY low",
                "SELECT v, i64 FROM few WHERE v % 5 = 1",
                "SELECT a.low, count(*) FROM few a JOIN few b ON a.i32 = b.v GROUP BY a.low",
            ] {
                pair.check(sql, true, "the first run").await;
                let found = becomes_brief(&pair, sql).await;
                let expected = answer(&pair.cpu, sql).await;
                same(&expected, &found).unwrap_or_else(|difference| panic!("{sql}\n{difference}"));
                // Not behind a query that may be long, but beside another short one.
                let device = device(&pair.gpu);
                let (name, never) = (PipelineName::new(0, "another"), AtomicBool::new(false));
                let admission = device.memory().admission();
                let other = admission
                    .begin(name, Priority::Normal, Demand::default(), 1 << 40, &never)
                    .expect("a turn");
                assert!(runs_on_its_own_thread(&pair.gpu, sql).await.is_none(), "{sql}");
                other.set_brief();
                let found = becomes_brief(&pair, sql).await;
                same(&expected, &found).unwrap_or_else(|difference| panic!("{sql}\n{difference}"));
            }
        });
    }
}
