//! Scans of one query that other queries follow (`galatea.tuning.shared_scans`).

use crate::compare::{Pair, answer, same, sum_of_figures};
use crate::data::{Shape, batch};
use datafusion::arrow::array::RecordBatch;
use std::sync::Arc;
use tokio::sync::Barrier;
use tokio::task::JoinHandle;

/// Queries over different columns of one table, with each kind of sink.
const QUERIES: &[&str] = &[
    "SELECT count(*), sum(i32), min(i64), max(d18) FROM t WHERE v >= 0",
    "SELECT count(*), sum(i32), avg(f64) FROM t WHERE v >= 100",
    "SELECT low, flag, count(*), sum(d9) FROM t GROUP BY low, flag",
    "SELECT low, k, count(*), sum(i32) FROM t WHERE v >= 200 GROUP BY low, k",
    "SELECT i64, u64, count(*), sum(d9) FROM t GROUP BY i64, u64",
    "SELECT i32, i64, v, low FROM t WHERE v % 3 = 1",
    "SELECT i32, v FROM t WHERE v % 3 = 1 ORDER BY i32, v",
    "SELECT i32, v FROM t ORDER BY v DESC, i32 LIMIT 7",
    "SELECT a.k, count(*), sum(b.v) FROM t a JOIN t b ON a.v = b.v AND a.v < 500 GROUP BY a.k",
    "SELECT v, row_number() OVER (PARTITION BY k ORDER BY v) FROM t WHERE v < 900",
    "SELECT count(DISTINCT i64), sum(d18) FROM t",
    "SELECT i32, v FROM t WHERE v > 500 LIMIT 5000",
];

const ROWS: usize = 30_033;

/// Sessions whose queries transfer all columns. Further settings follow.
fn streaming(settings: &[(&str, &str)]) -> Pair {
    let mut all = vec![
        ("galatea.tuning.chunk_rows", "700"),
        ("galatea.tuning.min_rows", "0"),
        ("galatea.cache.device", "false"),
        ("galatea.cache.shared_results", "false"),
    ];
    all.extend(settings);
    Pair::new(&all)
}

/// Replaces the table `t` of both sessions by a Parquet file with its rows.
async fn in_file(pair: &Pair, path: &std::path::Path) {
    let path = path.display();
    let copy = format!("COPY t TO '{path}' STORED AS PARQUET");
    answer(&pair.cpu, &copy).await;
    for ctx in [&pair.cpu, &pair.gpu] {
        ctx.deregister_table("t").expect("deregisters");
        let create = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{path}'");
        answer(ctx, &create).await;
    }
}

type Answer = datafusion::error::Result<Vec<RecordBatch>>;

/// Starts queries at the same time.
fn start(pair: &Pair, queries: &[String]) -> Vec<JoinHandle<Answer>> {
    let barrier = Arc::new(Barrier::new(queries.len()));
    let run = |sql: &String| {
        let (ctx, sql, barrier) = (pair.gpu.clone(), sql.clone(), Arc::clone(&barrier));
        tokio::spawn(async move {
            let frame = ctx.sql(&sql).await?;
            barrier.wait().await;
            frame.collect().await
        })
    };
    queries.iter().map(run).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_queries_match_the_cpu() {
    for settings in [
        &[][..],
        &[("galatea.memory.gpu_limit", "10 MiB")],
        &[("galatea.tuning.transfer", "staged")],
        &[("galatea.tuning.transfer_compression", "off")],
        &[("galatea.tuning.persistent_scan", "on")],
        &[
            ("galatea.cache.device", "true"),
            ("galatea.memory.gpu_limit", "3 MiB"),
        ],
        &[
            ("galatea.tuning.hash_slots", "64"),
            ("galatea.aggregate.strategy", "hash"),
        ],
    ] {
        let pair = streaming(settings);
        for (seed, is_file) in [(1, false), (2, true)] {
            pair.gpu.deregister_table("t").expect("deregisters");
            pair.cpu.deregister_table("t").expect("deregisters");
            pair.table("t", &[batch(ROWS, seed, Shape::Ordinary)]);
            let folder = tempfile::tempdir().expect("a folder");
            if is_file {
                in_file(&pair, &folder.path().join("t.parquet")).await;
            }
            let queries: Vec<String> = QUERIES.iter().chain(QUERIES).map(ToString::to_string).collect();
            for (sql, run) in queries.iter().zip(start(&pair, &queries)) {
                let context = format!("{settings:?}, seed {seed}, file: {is_file}\n{sql}");
                let rows = run.await.expect("no panic");
                let rows = rows.unwrap_or_else(|error| panic!("{context}\n{error}"));
                if sql.ends_with("LIMIT 5000") {
                    assert_eq!(
                        rows.iter().map(RecordBatch::num_rows).sum::<usize>(),
                        5000,
                        "{context}"
                    );
                    continue;
                }
                let expected = answer(&pair.cpu, sql).await;
                same(&expected, &rows).unwrap_or_else(|difference| panic!("{context}\n{difference}"));
            }
        }
    }
}

/// Eight clients that run different aggregates over the same columns, as often as it takes until they
/// overlap.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn clients_follow_the_scan_of_another() {
    let queries: Vec<String> = (0..8)
        .map(|client| {
            format!(
                "EXPLAIN ANALYZE SELECT k, count(*), sum(i32), sum(d9) FROM t WHERE v > {client} GROUP BY k"
            )
        })
        .collect();
    for (share, name) in [("true", "on"), ("false", "off")] {
        let pair = streaming(&[
            ("galatea.tuning.shared_scans", share),
            ("galatea.tuning.persistent_scan", "off"),
        ]);
        pair.table("t", &[batch(ROWS, 3, Shape::Ordinary)]);
        let mut shared = 0;
        for _ in 0..10 {
            for run in start(&pair, &queries) {
                let rows = run.await.expect("no panic").expect("an analysis");
                shared += sum_of_figures(&rows, "chunks shared");
            }
        }
        // Each query reads 43 chunks.
        println!("{name}: {shared} of {} chunks are shared", 10 * 8 * 43);
        match share {
            "true" => assert!(shared > 5 * 8 * 43, "{shared}"),
            _ => assert_eq!(shared, 0),
        }
    }
}

/// Leaders and followers that are cancelled.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cancelled_queries_leave_the_scans_of_others_intact() {
    let pair = streaming(&[]);
    pair.table("t", &[batch(ROWS, 4, Shape::Ordinary)]);
    let queries: Vec<String> = (0..12)
        .map(|client| format!("SELECT k, count(*), sum(i32), sum(d9) FROM t WHERE v > {client} GROUP BY k"))
        .collect();
    for round in 0..5 {
        let runs = start(&pair, &queries);
        tokio::time::sleep(std::time::Duration::from_millis(round * 3)).await;
        for (client, run) in runs.into_iter().enumerate() {
            if client % 3 == 1 {
                run.abort();
                continue;
            }
            let rows = run.await.expect("no panic").expect("an answer");
            let expected = answer(&pair.cpu, &queries[client]).await;
            same(&expected, &rows)
                .unwrap_or_else(|difference| panic!("round {round}, client {client}\n{difference}"));
        }
    }
}
