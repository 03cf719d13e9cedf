//! Many concurrent queries on one device, under every policy and under budgets that do not fit all of them:
//! each gets its own answer on the device, no query waits for ever, and all memory is freed.

use crate::compare::{Pair, same};
use crate::data::{Shape, batch};
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray, UInt8Array};
use datafusion::prelude::SessionContext;
use galatea::{GalateaConfig, QueryDevice};
use galatea_engine::session::Session;
use std::sync::Arc;
use std::time::Duration;

/// Queries over different columns, with sinks that grow, and with returned rows.
const QUERIES: &[&str] = &[
    "SELECT count(*), sum(i32), min(i64), max(d18) FROM t WHERE v >= 0",
    "SELECT k, count(*), sum(v) FROM t GROUP BY k",
    "SELECT i64, u64, count(*) FROM t GROUP BY i64, u64",
    "SELECT low, flag, sum(d9), avg(f64) FROM t GROUP BY low, flag",
    "SELECT i32, i64, v FROM t WHERE v % 3 = 1",
    "SELECT sum(i8), sum(i16), sum(u8), sum(u32) FROM t",
    "SELECT u32, max(day), min(ts) FROM t GROUP BY u32",
    "SELECT d.name, count(*), sum(t.v) FROM t JOIN d ON t.u8 = d.id GROUP BY d.name",
];

const ROWS: usize = 20_000;

/// The time limit for all queries of one case on two cores.
const WATCHDOG: Duration = Duration::from_secs(120);

struct Case {
    limit: &'static str,
    clients: usize,
    settings: &'static [(&'static str, &'static str)],
}

const CASES: &[Case] = &[
    Case {
        limit: "64 MiB",
        clients: 4,
        settings: &[],
    },
    Case {
        limit: "8 MiB",
        clients: 8,
        settings: &[
            ("galatea.aggregate.strategy", "hash"),
            ("galatea.tuning.hash_slots", "64"),
        ],
    },
    Case {
        limit: "7 MiB",
        clients: 16,
        settings: &[
            ("galatea.memory.replacement", "lru"),
            ("galatea.memory.admission", "weight"),
        ],
    },
    Case {
        limit: "7 MiB",
        clients: 6,
        settings: &[
            ("galatea.memory.replacement", "cost"),
            ("galatea.memory.admission", "peak"),
        ],
    },
    Case {
        limit: "7 MiB",
        clients: 6,
        settings: &[
            ("galatea.memory.replacement", "mru"),
            ("galatea.memory.admission", "fix-2"),
        ],
    },
    Case {
        limit: "7 MiB",
        clients: 32,
        settings: &[
            ("galatea.memory.replacement", "random"),
            ("galatea.tuning.row_output", "heap"),
        ],
    },
];

async fn check(case: &Case) {
    let mut settings = vec![
        ("galatea.memory.gpu_limit", case.limit),
        ("galatea.tuning.chunk_rows", "1500"),
        ("galatea.tuning.block_threads", "32"),
        ("galatea.tuning.min_rows", "0"),
    ];
    settings.extend(case.settings);
    let pair = Pair::new(&settings);
    pair.table("t", &[batch(ROWS, 7, Shape::Ordinary)]);
    let ids: ArrayRef = Arc::new(UInt8Array::from_iter_values(0..=255));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..=255).map(|id| format!("n{}", id % 9)),
    ));
    let dimension = RecordBatch::try_from_iter([("id", ids), ("name", names)]).expect("two columns");
    pair.table("d", &[dimension]);
    let mut expected: Vec<Vec<RecordBatch>> = Vec::new();
    for sql in QUERIES {
        let frame = pair.cpu.sql(sql).await.expect("a plan");
        expected.push(frame.collect().await.expect("an answer"));
    }
    let expected = Arc::new(expected);
    let clients = (0..case.clients).map(|client| {
        let (ctx, expected) = (pair.gpu.clone(), Arc::clone(&expected));
        tokio::spawn(async move {
            for turn in 0..2 {
                let number = (client + 3 * turn) % QUERIES.len();
                let frame = ctx.sql(QUERIES[number]).await.expect("a plan");
                let plan = frame.create_physical_plan().await.expect("a plan");
                let rows = datafusion::physical_plan::collect(Arc::clone(&plan), ctx.task_ctx())
                    .await
                    .unwrap_or_else(|error| panic!("{}\n{error}", QUERIES[number]));
                same(&expected[number], &rows)
                    .unwrap_or_else(|difference| panic!("{}\n{difference}", QUERIES[number]));
                let report = galatea::query_report(&plan).expect("a report");
                assert_eq!(
                    report.device,
                    QueryDevice::Emulated,
                    "{}\n{:?}",
                    QUERIES[number],
                    report.reasons
                );
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    let all = futures::future::join_all(clients);
    let ended = tokio::time::timeout(WATCHDOG, all).await;
    for client in ended.expect("no client waits for ever") {
        client.expect("right answers");
    }
    let state = pair.gpu.state();
    let config = GalateaConfig::of(state.config_options());
    let session: Arc<Session> = state.config().get_extension().expect("a Galatea session");
    let device = session.engine().device(&config).expect("the emulated device");
    let budget = device.device().budget();
    assert!(budget.peak() <= budget.limit());
    assert!(device.memory().admission().queries().is_empty());
    device.memory().clear().expect("evicted");
    assert_eq!(device.memory().bytes(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_queries_match_the_cpu() {
    for case in CASES {
        check(case).await;
    }
}

/// Concurrent queries of every priority, with one at a time on the device.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn priorities_change_no_result() {
    let pair = Pair::new(&[
        ("galatea.tuning.min_rows", "0"),
        ("galatea.memory.admission", "fix-1"),
    ]);
    pair.table("t", &[batch(4000, 5, Shape::Ordinary)]);
    let clients: Vec<_> = (["low", "normal", "high"].into_iter().cycle().take(9).enumerate())
        .map(|(client, priority)| {
            let ctx = SessionContext::new_with_state(pair.gpu.state());
            let sql = QUERIES[client % 3];
            let cpu = pair.cpu.clone();
            tokio::spawn(async move {
                let set = format!("SET galatea.priority = '{priority}'");
                ctx.sql(&set).await.expect("a priority");
                let expected = cpu.sql(sql).await.expect("a plan").collect().await;
                for _ in 0..3 {
                    let frame = ctx.sql(sql).await.expect("a plan");
                    let plan = frame.create_physical_plan().await.expect("a plan");
                    let rows = datafusion::physical_plan::collect(Arc::clone(&plan), ctx.task_ctx()).await;
                    let rows = rows.unwrap_or_else(|error| panic!("{sql}\n{error}"));
                    same(expected.as_ref().expect("an answer"), &rows)
                        .unwrap_or_else(|difference| panic!("{priority}: {sql}\n{difference}"));
                    let report = galatea::query_report(&plan).expect("a report");
                    assert_eq!(report.device, QueryDevice::Emulated, "{:?}", report.reasons);
                }
            })
        })
        .collect();
    let ended = tokio::time::timeout(WATCHDOG, futures::future::join_all(clients)).await;
    for client in ended.expect("no client waits for ever") {
        client.expect("right answers");
    }
}

/// Two repeated queries that fit separately with all their columns, but not together.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn queries_that_fit_alone_wait_for_each_other() {
    let pair = Pair::new(&[
        ("galatea.memory.gpu_limit", "512 KiB"),
        ("galatea.tuning.chunk_rows", "4096"),
        ("galatea.tuning.min_rows", "0"),
    ]);
    pair.table("t", &[batch(40_000, 3, Shape::Ordinary)]);
    let queries = [
        "SELECT sum(i64), sum(i32) FROM t",
        "SELECT sum(u64), max(u32) FROM t WHERE u32 > 5",
        "SELECT sum(d18), min(i16) FROM t",
    ];
    let clients: Vec<_> = (queries.into_iter())
        .map(|sql| {
            let ctx = pair.gpu.clone();
            tokio::spawn(async move {
                for _ in 0..40 {
                    let frame = ctx.sql(sql).await.expect("a plan");
                    let plan = frame.create_physical_plan().await.expect("a plan");
                    let rows = datafusion::physical_plan::collect(Arc::clone(&plan), ctx.task_ctx()).await;
                    rows.unwrap_or_else(|error| panic!("{sql}\n{error}"));
                    let report = galatea::query_report(&plan).expect("a report");
                    assert_eq!(
                        report.device,
                        QueryDevice::Emulated,
                        "{sql}\n{:?}",
                        report.reasons
                    );
                }
            })
        })
        .collect();
    let ended = tokio::time::timeout(WATCHDOG, futures::future::join_all(clients)).await;
    for client in ended.expect("no client waits for ever") {
        client.expect("on the device");
    }
}
