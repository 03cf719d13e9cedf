//! The same queries under hostile settings: every strategy forced, one row per chunk, tiny blocks, colliding hashes,
//! no room for resident columns.

use crate::compare::Pair;
use crate::data::{Shape, batch};

const QUERIES: &[&str] = &[
    "SELECT count(*), sum(i32), min(d18), max(f64) FROM t WHERE i16 > 0",
    "SELECT low, count(*), sum(d38), min(i64) FROM t GROUP BY low",
    "SELECT k, flag, sum(f64), count(i32) FROM t GROUP BY k, flag",
    "SELECT i32, i64, count(*) FROM t GROUP BY i32, i64",
    "SELECT v, low FROM t WHERE k < 3",
];

#[tokio::test]
async fn every_setting_gives_the_same_answer() {
    for settings in [
        &[("galatea.group_by", "shared")][..],
        &[("galatea.group_by", "dense")],
        &[("galatea.group_by", "hash")],
        &[("galatea.group_by", "hash"), ("galatea.collide_hashes", "true")],
        &[("galatea.hash_slots", "2"), ("galatea.group_by", "hash")],
        &[("galatea.row_output", "direct")],
        &[("galatea.row_output", "counted")],
        &[("galatea.row_output", "heap")],
        &[
            ("galatea.row_output", "heap"),
            ("galatea.chunk_rows", "33"),
            ("galatea.cache_device", "false"),
        ],
        &[("galatea.block_threads", "32")],
        &[("galatea.rows_per_thread", "1"), ("galatea.block_threads", "64")],
        &[("galatea.chunk_rows", "1")],
        &[("galatea.chunk_rows", "33"), ("galatea.cache_device", "false")],
        &[
            ("galatea.gpu_memory_limit", "1 MiB"),
            ("galatea.chunk_rows", "50"),
            ("galatea.block_threads", "32"),
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
async fn a_growing_hash_table_loses_no_row() {
    let pair = Pair::new(&[
        ("galatea.group_by", "hash"),
        ("galatea.hash_slots", "2"),
        ("galatea.block_threads", "32"),
        ("galatea.rows_per_thread", "1"),
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
async fn a_dry_heap_loses_no_row() {
    for (limit, block) in [("3 MiB", "32"), ("8 MiB", "256")] {
        let pair = Pair::new(&[
            ("galatea.row_output", "heap"),
            ("galatea.gpu_memory_limit", limit),
            ("galatea.block_threads", block),
            ("galatea.chunk_rows", "4096"),
        ]);
        pair.table("t", &[batch(60_000, 21, Shape::Ordinary)]);
        for sql in [
            "SELECT i32, i64, d38, f64, flag, low, v FROM t WHERE v >= 0 OR v IS NULL",
            "SELECT i64, d38 FROM t WHERE i16 > 0",
            "SELECT v FROM t WHERE v < -1000000",
        ] {
            pair.check(sql, true, &format!("heap within {limit}")).await;
        }
    }
}
