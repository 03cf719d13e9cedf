//! Chunks that are transferred while the kernel that reads them runs (`galatea.tuning.persistent_scan`).

use crate::compare::{Pair, answer, same, sum_of_figures};
use crate::data::{Shape, batch};

/// One query for each kind of sink.
const QUERIES: &[&str] = &[
    "SELECT count(*), sum(i32), min(i64), max(d18), avg(f64) FROM t WHERE v >= 0",
    "SELECT low, flag, count(*), sum(d9) FROM t GROUP BY low, flag",
    "SELECT i64, u64, count(*), sum(d9) FROM t GROUP BY i64, u64",
    "SELECT i32, i64, v, low FROM t WHERE v % 3 = 1",
    "SELECT i32, v FROM t WHERE v % 3 = 1 ORDER BY i32, v",
    "SELECT i32, v FROM t ORDER BY v DESC, i32 LIMIT 7",
    "SELECT a.k, count(*), sum(b.v) FROM t a JOIN t b ON a.v = b.v AND a.v < 500 GROUP BY a.k",
    "SELECT v, row_number() OVER (PARTITION BY k ORDER BY v) FROM t WHERE v < 900",
    "SELECT count(DISTINCT i64) FROM t",
];

/// The sum of a counter of EXPLAIN ANALYZE over all pipelines.
async fn counted(pair: &Pair, sql: &str, name: &str) -> usize {
    let frame = pair
        .gpu
        .sql(&format!("EXPLAIN ANALYZE {sql}"))
        .await
        .expect("a plan");
    let rows = frame.collect().await.expect("runs");
    sum_of_figures(&rows, name)
}

const AWAITED: &str = "chunks overlapped";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn persistent_scan_matches_the_cpu() {
    for settings in [
        &[][..],
        &[("galatea.cache.device", "true")],
        &[("galatea.memory.gpu_limit", "10 MiB")],
        &[
            ("galatea.tuning.rows_per_thread", "1"),
            ("galatea.tuning.block_threads", "32"),
        ],
        &[
            ("galatea.aggregate.strategy", "hash"),
            ("galatea.tuning.hash_slots", "64"),
        ],
        &[
            ("galatea.tuning.row_output", "heap"),
            ("galatea.tuning.build_rows", "0"),
        ],
        &[
            ("galatea.tuning.row_output", "direct"),
            ("galatea.join.partitions", "4"),
        ],
    ] {
        let mut all = vec![
            ("galatea.tuning.chunk_rows", "700"),
            ("galatea.tuning.min_rows", "0"),
            ("galatea.cache.device", "false"),
            ("galatea.tuning.persistent_scan", "on"),
        ];
        all.extend(settings);
        let pair = Pair::new(&all);
        for (seed, rows) in [(1, 700), (2, 1401), (3, 30_033)] {
            pair.gpu.deregister_table("t").expect("deregisters");
            pair.cpu.deregister_table("t").expect("deregisters");
            pair.table("t", &[batch(rows, seed, Shape::Ordinary)]);
            for sql in QUERIES {
                pair.check(sql, true, &format!("{settings:?}, {rows} rows, seed {seed}"))
                    .await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn explain_analyze_counts_overlapped_chunks() {
    let pair = Pair::new(&[
        ("galatea.tuning.chunk_rows", "700"),
        ("galatea.tuning.min_rows", "0"),
        ("galatea.cache.device", "false"),
    ]);
    pair.table("t", &[batch(30_033, 5, Shape::Ordinary)]);
    let sql = QUERIES[0];
    for (scan, awaited) in [("on", 43), ("off", 0), ("auto", 0), ("on", 43)] {
        pair.gpu
            .sql(&format!("SET galatea.tuning.persistent_scan = '{scan}'"))
            .await
            .expect("a setting");
        assert_eq!(counted(&pair, sql, AWAITED).await, awaited, "{scan}");
    }
    // Resident chunks are not awaited, and a pipeline that may stop early transfers only the chunks that it
    // reads.
    pair.gpu
        .sql("SET galatea.cache.device = true")
        .await
        .expect("a setting");
    for awaited in [43, 0] {
        assert_eq!(counted(&pair, sql, AWAITED).await, awaited);
    }
    pair.gpu
        .sql("SET galatea.cache.device = false")
        .await
        .expect("a setting");
    assert_eq!(
        counted(&pair, "SELECT v FROM t WHERE v > 0 LIMIT 5", AWAITED).await,
        0
    );
}

/// Concurrent queries over one table. Each may find that another one is transferring its chunks.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_queries_share_chunk_transfers() {
    let pair = Pair::new(&[
        ("galatea.tuning.chunk_rows", "700"),
        ("galatea.tuning.min_rows", "0"),
        ("galatea.tuning.persistent_scan", "on"),
    ]);
    for round in 0..3 {
        pair.gpu.deregister_table("t").expect("deregisters");
        pair.cpu.deregister_table("t").expect("deregisters");
        pair.table("t", &[batch(30_033, round, Shape::Ordinary)]);
        let runs = QUERIES.iter().chain(QUERIES).map(|sql| {
            let ctx = pair.gpu.clone();
            tokio::spawn(async move { (*sql, ctx.sql(sql).await.expect("a plan").collect().await) })
        });
        for run in futures::future::join_all(runs).await {
            let (sql, rows) = run.expect("no panic");
            let rows = rows.unwrap_or_else(|error| panic!("{sql}\n{error}"));
            let expected = answer(&pair.cpu, sql).await;
            same(&expected, &rows).unwrap_or_else(|difference| panic!("round {round}\n{sql}\n{difference}"));
        }
    }
}
