//! The same queries under hostile settings: every strategy forced, one row per chunk, tiny blocks, colliding
//! hashes, no room for resident columns.

use crate::compare::Pair;
use crate::data::{Shape, batch};
use datafusion::dataframe::DataFrameWriteOptions;

const QUERIES: &[&str] = &[
    "SELECT count(*), sum(i32), min(d18), max(f64) FROM t WHERE i16 > 0",
    "SELECT low, count(*), sum(d38), min(i64) FROM t GROUP BY low",
    "SELECT k, flag, sum(f64), count(i32) FROM t GROUP BY k, flag",
    "SELECT i32, i64, count(*) FROM t GROUP BY i32, i64",
    "SELECT v, low FROM t WHERE k < 3",
];

#[tokio::test]
async fn results_match_the_cpu_for_every_setting() {
    for settings in [
        &[("galatea.aggregate.strategy", "registers")][..],
        &[("galatea.aggregate.strategy", "threads")],
        &[
            ("galatea.aggregate.strategy", "copies"),
            ("galatea.aggregate.replicas", "1"),
        ],
        &[
            ("galatea.aggregate.strategy", "copies"),
            ("galatea.aggregate.replicas", "4"),
            ("galatea.aggregate.preaggregation", "runs"),
        ],
        &[
            ("galatea.aggregate.strategy", "copies"),
            ("galatea.aggregate.replicas", "32"),
            ("galatea.tuning.block_threads", "64"),
        ],
        &[
            ("galatea.aggregate.strategy", "threads"),
            ("galatea.aggregate.preaggregation", "runs"),
        ],
        &[
            ("galatea.aggregate.preaggregation", "runs"),
            ("galatea.tuning.rows_per_thread", "4"),
        ],
        &[("galatea.aggregate.preaggregation", "warps")],
        &[("galatea.aggregate.strategy", "dense")],
        &[
            ("galatea.aggregate.strategy", "dense"),
            ("galatea.aggregate.replicas", "4"),
            ("galatea.aggregate.preaggregation", "warps"),
            ("galatea.tuning.block_threads", "32"),
        ],
        &[("galatea.aggregate.strategy", "hash")],
        &[
            ("galatea.aggregate.strategy", "hash"),
            ("galatea.debug.collide_hashes", "true"),
        ],
        &[
            ("galatea.tuning.hash_slots", "2"),
            ("galatea.aggregate.strategy", "hash"),
        ],
        &[
            ("galatea.aggregate.strategy", "hash"),
            ("galatea.aggregate.preaggregation", "off"),
        ],
        &[
            ("galatea.aggregate.strategy", "hash"),
            ("galatea.aggregate.preaggregation", "off"),
            ("galatea.tuning.hash_slots", "2"),
        ],
        &[("galatea.tuning.row_output", "direct")],
        &[("galatea.tuning.row_output", "counted")],
        &[("galatea.tuning.row_output", "heap")],
        &[
            ("galatea.tuning.row_output", "heap"),
            ("galatea.tuning.chunk_rows", "33"),
            ("galatea.cache.device", "false"),
        ],
        &[("galatea.tuning.block_threads", "32")],
        &[
            ("galatea.tuning.rows_per_thread", "1"),
            ("galatea.tuning.block_threads", "64"),
        ],
        &[("galatea.tuning.chunk_rows", "1")],
        &[
            ("galatea.tuning.chunk_rows", "33"),
            ("galatea.cache.device", "false"),
        ],
        &[
            ("galatea.memory.gpu_limit", "1 MiB"),
            ("galatea.tuning.chunk_rows", "50"),
            ("galatea.tuning.block_threads", "32"),
        ],
    ] {
        let pair = Pair::new(settings);
        pair.table("t", &[batch(400, 77, Shape::Ordinary)]);
        for sql in QUERIES {
            pair.check(sql, false, &format!("{settings:?}")).await;
        }
    }
}

#[tokio::test]
async fn growing_hash_table_loses_no_rows() {
    let pair = Pair::new(&[
        ("galatea.aggregate.strategy", "hash"),
        ("galatea.tuning.hash_slots", "2"),
        ("galatea.tuning.block_threads", "32"),
        ("galatea.tuning.rows_per_thread", "1"),
    ]);
    pair.table("t", &[batch(20_000, 9, Shape::Ordinary)]);
    pair.check(
        "SELECT i32, count(*), sum(v) FROM t GROUP BY i32",
        true,
        "growing",
    )
    .await;
    pair.check(
        "SELECT i64, u64, count(*), sum(v) FROM t GROUP BY i64, u64",
        true,
        "growing, wide keys",
    )
    .await;
}

#[tokio::test]
async fn exhausted_heap_loses_no_rows() {
    for (limit, block) in [("3 MiB", "32"), ("8 MiB", "256")] {
        let pair = Pair::new(&[
            ("galatea.tuning.row_output", "heap"),
            ("galatea.memory.gpu_limit", limit),
            ("galatea.tuning.block_threads", block),
            ("galatea.tuning.chunk_rows", "4096"),
        ]);
        pair.table("t", &[batch(60_000, 21, Shape::Ordinary)]);
        for sql in [
            "SELECT i32, i64, d38, f64, flag, low, v FROM t WHERE v >= 0 OR v IS NULL",
            "SELECT i64, d38 FROM t WHERE i16 > 0",
            "SELECT v FROM t WHERE v < -1000000",
        ] {
            pair.check(sql, true, &format!("heap within {limit}")).await;
            // The heap is reused: the second run starts with the state that the first left.
            pair.check(sql, true, &format!("kept heap within {limit}")).await;
        }
    }
}

#[tokio::test]
async fn overflow_rows_survive_an_exhausted_heap() {
    for (limit, block, collide) in [
        ("4 MiB", "32", "false"),
        ("8 MiB", "256", "false"),
        ("8 MiB", "32", "true"),
    ] {
        let pair = Pair::new(&[
            ("galatea.aggregate.strategy", "hash"),
            ("galatea.tuning.hash_slots", "2"),
            ("galatea.memory.gpu_limit", limit),
            ("galatea.tuning.block_threads", block),
            ("galatea.debug.collide_hashes", collide),
            ("galatea.tuning.chunk_rows", "4096"),
        ]);
        let rows = if collide == "true" { 600 } else { 20_000 };
        pair.table("t", &[batch(rows, 22, Shape::Ordinary)]);
        for sql in [
            "SELECT i32, count(*), sum(v), min(i64), max(f64), sum(d38) FILTER (WHERE flag) FROM t GROUP BY i32",
            "SELECT i64, d38, count(v), avg(f64), sum(i32) FROM t WHERE v IS NOT NULL GROUP BY i64, d38",
            "SELECT v, f64, max(d18), count(*) FROM t GROUP BY v, f64",
        ] {
            pair.check(sql, false, &format!("within {limit}, {block} threads"))
                .await;
        }
    }
}

#[tokio::test]
async fn fallback_over_operator_rows_keeps_row_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let maker = Pair::new(&[]);
    let mut files = Vec::new();
    for (name, rows, seed) in [("a", 3000, 5), ("b", 1000, 6)] {
        maker.table(name, &[batch(rows, seed, Shape::Ordinary)]);
        let file = folder.path().join(format!("{name}.parquet"));
        let frame = maker.cpu.table(name).await.expect("a table");
        let options = DataFrameWriteOptions::new().with_single_file_output(true);
        let path = file.to_str().expect("a path");
        frame.write_parquet(path, options, None).await.expect("writes");
        files.push(format!("'{path}'"));
    }
    for settings in [
        &[][..],
        &[("galatea.memory.store_limit", "64 KiB")],
        &[("galatea.memory.gpu_limit", "4 KiB")],
    ] {
        let pair = Pair::new(settings);
        for sql in [
            "SELECT low, max(d38), count(*) FROM (SELECT low, d38 FROM {A} UNION ALL SELECT low, d38 FROM {B}) GROUP BY low",
            "SELECT max(a.d38), count(*) FROM {A} a JOIN {B} b ON a.v = b.v",
            "SELECT max(a.d38), count(*) FROM {A} a LEFT JOIN {B} b ON a.v = b.v + 97",
            "SELECT count(*), sum(c) FROM (SELECT v, low, count(*) c FROM {A} GROUP BY v, low)",
            "SELECT b.low, sum(10 / a.k) FROM {A} a JOIN {B} b ON a.v = b.v GROUP BY b.low",
            "SELECT a.v, count(*) FROM {A} a, {B} b WHERE a.v IN (SELECT v FROM {B} GROUP BY v HAVING sum(k) > 3) AND a.v = b.v GROUP BY a.v",
        ] {
            let sql = sql.replace("{A}", &files[0]).replace("{B}", &files[1]);
            pair.check(&sql, false, &format!("{settings:?}")).await;
        }
    }
}
