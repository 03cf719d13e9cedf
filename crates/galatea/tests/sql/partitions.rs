//! Probe rows that are radix-partitioned before the lookup: for all keys, join types, numbers of partitions
//! and memory, queries return the CPU's answers.

use crate::builds::{BUILT, CHAINS, chain};
use crate::compare::Pair;
use crate::joins::STRICT;
use crate::pairs::side;
use datafusion::arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::util::pretty::pretty_format_batches;
use std::sync::Arc;

const FEW: (&str, &str) = ("galatea.join.partitions", "2");
const MANY: (&str, &str) = ("galatea.join.partitions", "256");

/// The lines of EXPLAIN ANALYZE about partitions.
pub(crate) async fn partitions(pair: &Pair, sql: &str) -> Vec<String> {
    let frame = pair
        .gpu
        .sql(&format!("EXPLAIN ANALYZE {sql}"))
        .await
        .expect("a plan");
    let batches = frame.collect().await.expect("runs");
    let text = pretty_format_batches(&batches).expect("text").to_string();
    let facts = text.split("partitions=").skip(1);
    facts
        .map(|rest| rest.chars().take_while(|c| *c != ',').collect())
        .collect()
}

/// The name of a distribution of keys, and the key of a row.
type Keys = (&'static str, fn(i64) -> Option<i64>);

/// A table of `rows` rows: a key and a value.
fn table(rows: i64, key: impl Fn(i64) -> Option<i64>) -> RecordBatch {
    let numbers = |value: &dyn Fn(i64) -> Option<i64>| -> ArrayRef {
        Arc::new((0..rows).map(value).collect::<Int64Array>())
    };
    let words = (0..rows).map(|row| key(row).map(|key| format!("word {}", key % 1000)));
    let columns = [
        ("k", numbers(&key), true),
        ("v", numbers(&|row| (row % 7 > 0).then_some(row * 3)), true),
        ("name", Arc::new(words.collect::<StringArray>()) as ArrayRef, true),
        (
            "small",
            Arc::new((0..rows).map(|row| Some(row as i32 % 5)).collect::<Int32Array>()) as ArrayRef,
            true,
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).expect("one length")
}

/// One row of each number, shuffled.
fn shuffled(row: i64, rows: i64) -> i64 {
    // 7919 does not divide any number of rows used here.
    row * 7919 % rows.max(1)
}

const QUERIES: &[&str] = &[
    "SELECT count(*), sum(r.v), sum(s.v), count(r.name) FROM s JOIN r ON s.k = r.k",
    "SELECT s.small, count(*), max(r.v), min(r.name) FROM s JOIN r ON s.k = r.k WHERE s.v % 2 = 0 AND r.small > 1 GROUP BY s.small",
    "SELECT s.k, s.v, s.name, r.v, r.name FROM s LEFT JOIN r ON s.k = r.k",
    "SELECT count(*), sum(s.v) FROM s WHERE EXISTS (SELECT 1 FROM r WHERE r.k = s.k AND r.small = 2)",
    "SELECT count(*), sum(s.v), min(s.name) FROM s WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = s.k)",
    "SELECT count(*), sum(s.v) FROM s WHERE s.small = 1 OR EXISTS (SELECT 1 FROM r WHERE r.k = s.k)",
    "SELECT r.k, g.n, g.t FROM r LEFT JOIN (SELECT k, count(*) AS n, sum(v) AS t FROM s GROUP BY k) AS g ON r.k = g.k",
];

#[tokio::test]
async fn partitioned_joins_match_the_cpu() {
    for parts in [FEW, MANY] {
        let pair = Pair::new(&[STRICT, BUILT, parts]);
        chain(&pair, 5000, 21);
        // The other number of partitions runs a third of them.
        let step = if parts == MANY { 1 } else { 3 };
        for sql in CHAINS.iter().step_by(step) {
            pair.check(sql, true, parts.1).await;
        }
    }
}

#[tokio::test]
async fn partitioned_joins_of_any_size_and_skew() {
    for (build, probe) in [(0, 9), (9, 0), (1, 1), (31, 33), (257, 2049), (5000, 3000)] {
        let keys: [Keys; 3] = [
            ("spread", |row| (row % 9 > 0).then_some(row * 31 % 6000 - 20)),
            ("one key", |_| Some(3)),
            ("no key", |_| None),
        ];
        for (number, (skew, key)) in keys.into_iter().enumerate() {
            let parts = if number == 0 { MANY } else { FEW };
            let pair = Pair::new(&[STRICT, BUILT, parts, ("galatea.tuning.chunk_rows", "1000")]);
            pair.table("r", &[table(build, |row| Some(shuffled(row, build)))]);
            pair.table("s", &[table(probe, key)]);
            let step = if number == 0 { 1 } else { 2 };
            for sql in QUERIES.iter().step_by(step) {
                pair.check(sql, false, &format!("{build} and {probe} rows, {skew}"))
                    .await;
            }
        }
    }
}

/// Sparse keys, string keys, and keys of several parts.
#[tokio::test]
async fn partitioned_joins_by_sparse_string_and_multiple_keys() {
    let pair = Pair::new(&[STRICT, BUILT, ("galatea.join.partitions", "16")]);
    let far = |row: i64| (row * 0x1234_5678_9abc) ^ (row << 40);
    pair.table("r", &[table(900, |row| Some(far(shuffled(row, 900))))]);
    pair.table("s", &[table(4000, |row| (row % 11 > 0).then(|| far(row % 1300)))]);
    pair.table("w", &[table(900, |row| Some(shuffled(row, 900)))]);
    // Groups by sparse keys cannot be build sides.
    let (_, queries) = QUERIES.split_last().expect("not empty");
    for sql in queries.iter().chain(&[
        "SELECT count(*), sum(w.v), sum(s.v) FROM s JOIN w ON s.name = w.name",
        "SELECT count(*), sum(w.v), sum(s.v) FROM s LEFT JOIN w ON s.name = w.name AND s.small = w.small",
        "SELECT count(*), sum(w.v), sum(r.v) FROM s JOIN r ON s.k = r.k LEFT JOIN w ON s.v = w.k",
    ]) {
        pair.check(sql, true, "keys").await;
    }
}

#[tokio::test]
async fn all_partitioned_join_types_with_repeated_keys() {
    let pair = Pair::new(&[STRICT, BUILT, ("galatea.join.partitions", "8")]);
    pair.table("l", &[side(900, 60, 41)]);
    pair.table("r", &[side(700, 80, 42)]);
    for kind in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
        for condition in [
            "l.k = r.k",
            "l.k = r.k AND l.parent < r.parent",
            "l.k = r.k AND l.name = r.name",
        ] {
            let from = format!("FROM l {kind} r ON {condition}");
            let rows = format!("SELECT l.k, l.name, l.since, r.k, r.size, r.paid, r.open {from}");
            pair.check(&rows, true, &from).await;
            let groups = format!(
                "SELECT l.name, count(*), count(r.k), sum(r.size), max(l.paid) {from} GROUP BY l.name"
            );
            pair.check(&groups, true, &from).await;
        }
    }
}

/// Expressions are evaluated only for rows with a match.
#[tokio::test]
async fn expressions_are_evaluated_only_for_matched_rows() {
    let pair = Pair::new(&[STRICT, BUILT, FEW]);
    pair.table("r", &[table(100, |row| Some(shuffled(row, 100)))]);
    // Rows with a divisor of 0 have keys that `r` lacks.
    pair.table(
        "s",
        &[table(500, |row| {
            Some(if row % 5 == 0 { 1000 } else { row % 120 })
        })],
    );
    for sql in [
        "SELECT count(*), sum(100 / s.small) FROM s JOIN r ON s.k = r.k",
        "SELECT r.small, sum(100 / s.small) FROM s JOIN r ON s.k = r.k WHERE 10 / s.small > r.small GROUP BY r.small",
    ] {
        pair.check(sql, true, "0 has no partner").await;
    }
}

#[tokio::test]
async fn hostile_settings_change_no_result() {
    let settings: [&[(&str, &str)]; 6] = [
        &[("galatea.memory.gpu_limit", "96 KiB")],
        &[
            ("galatea.memory.gpu_limit", "768 KiB"),
            ("galatea.cache.device", "false"),
        ],
        &[
            ("galatea.tuning.block_threads", "32"),
            ("galatea.tuning.rows_per_thread", "1"),
        ],
        &[
            ("galatea.tuning.block_threads", "1024"),
            ("galatea.tuning.chunk_rows", "7"),
        ],
        &[
            ("galatea.join.lookup_memory", "shared"),
            ("galatea.tuning.build_rows", "1000"),
        ],
        &[
            ("galatea.aggregate.strategy", "hash"),
            ("galatea.tuning.hash_slots", "2"),
        ],
    ];
    for settings in settings {
        let mut all = vec![BUILT, ("galatea.join.partitions", "64")];
        all.extend(settings);
        let pair = Pair::new(&all);
        chain(&pair, 3000, 5);
        for sql in &CHAINS[..9] {
            pair.check(sql, false, &format!("{settings:?}")).await;
        }
    }
}

/// A join with a build side larger than device memory runs out of core, for any requested number of
/// partitions.
#[tokio::test]
async fn oversized_build_side_runs_out_of_core() {
    for parts in [FEW, ("galatea.join.partitions", "1")] {
        let pair = Pair::new(&[
            STRICT,
            BUILT,
            parts,
            ("galatea.memory.gpu_limit", "256 KiB"),
            ("galatea.tuning.chunk_rows", "4096"),
        ]);
        pair.table("r", &[table(60_000, |row| Some(shuffled(row, 60_000)))]);
        pair.table("s", &[table(70_000, |row| Some(row * 31 % 65_000))]);
        pair.check(QUERIES[0], true, parts.1).await;
        let told = partitions(&pair, QUERIES[0]).await;
        assert!(told.iter().any(|told| told.contains("of d0")), "{told:?}");
    }
}

#[tokio::test]
async fn explain_analyze_shows_partition_count_and_reason() {
    let sql = "SELECT count(*), sum(r.v), sum(s.v) FROM s JOIN r ON s.k = r.k";
    let on = |settings: &[(&str, &str)]| {
        let pair = Pair::new(&[&[STRICT, BUILT], settings].concat());
        pair.table("r", &[table(3000, |row| Some(shuffled(row, 3000)))]);
        pair.table("s", &[table(9000, |row| Some(row * 31 % 3000))]);
        pair
    };
    let told = partitions(&on(&[("galatea.join.partitions", "32")]), sql).await;
    // The rows of the build side, and the probe rows.
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|told| told.starts_with("32")), "{told:?}");
    for settings in [&[("galatea.join.partitions", "1")][..], &[]] {
        assert!(partitions(&on(settings), sql).await.is_empty(), "{settings:?}");
    }
}
