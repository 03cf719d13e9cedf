//! Out-of-core joins of a key whose rows alone exceed a partition: every join type, on the build side, on the
//! probe side and on both.

use crate::builds::BUILT;
use crate::compare::Pair;
use crate::joins::{STRICT, text};
use crate::partitions::partitions;
use crate::parts::{far, table};
use datafusion::arrow::array::RecordBatch;

/// Rows with the key 7, then rows with other keys; a tenth of the keys are NULL.
fn skewed(rows: i64, heavy: i64) -> RecordBatch {
    table(rows, true, move |row| if row < heavy { 7 } else { row })
}

fn pair(memory: &str, build: RecordBatch, probe: RecordBatch) -> Pair {
    pair_with(memory, "multipass", build, probe)
}

fn pair_with(memory: &str, algorithm: &str, build: RecordBatch, probe: RecordBatch) -> Pair {
    let pair = Pair::new(&[
        STRICT,
        BUILT,
        ("galatea.memory.gpu_limit", memory),
        ("galatea.join.algorithm", algorithm),
        ("galatea.tuning.chunk_rows", "2000"),
        ("galatea.join.order", "written"),
    ]);
    pair.table("r", &[build]);
    pair.table("l", &[probe]);
    pair
}

/// Checks that the query runs on the device, in slices of rows with equal keys.
async fn in_slices(pair: &Pair, sql: &str, context: &str) {
    pair.check(sql, true, context).await;
    let plan = text(pair, &format!("EXPLAIN ANALYZE {sql}")).await;
    assert!(
        plan.contains("slices of rows with equal keys"),
        "{context}\n{sql}\n{plan}"
    );
}

/// The heavy key on the build side.
const BUILD: [(i64, i64); 2] = [(9_000, 8_000), (9_100, 20)];

/// On the probe side.
const PROBE: [(i64, i64); 2] = [(9_000, 20), (9_100, 8_000)];

/// On both sides.
const BOTH: [(i64, i64); 2] = [(3_500, 2_500), (3_600, 1_500)];

/// Conditions beside the key. For each row of the heavy key, a third of the other side's rows fulfil the
/// first one. At most one row fulfils the second one, so other slices have no match. No row fulfils the last
/// one.
const CONDITIONS: [&str; 3] = [
    " AND (r.v + l.v) % 3 = 0",
    " AND r.v - l.v = 0",
    " AND r.v + l.v < 0",
];

fn pair_of([build, probe]: [(i64, i64); 2]) -> Pair {
    pair("160 KiB", skewed(build.0, build.1), skewed(probe.0, probe.1))
}

/// Outer joins with these conditions, and the rows of one.
async fn outer_joins(shape: [(i64, i64); 2], conditions: &[&str]) {
    let pair = pair_of(shape);
    for kind in ["LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
        for condition in conditions {
            let sql = format!(
                "SELECT count(*), sum(l.v), sum(r.v), count(r.k), count(l.k), count(r.small), count(l.small) FROM l {kind} r ON l.k = r.k{condition}"
            );
            in_slices(&pair, &sql, "outer").await;
        }
    }
    let from = format!("FROM l FULL JOIN r ON l.k = r.k{}", CONDITIONS[1]);
    in_slices(&pair, &format!("SELECT l.k, l.v, r.k, r.v {from}"), "rows").await;
    let groups =
        format!("SELECT l.small, r.open, count(*), sum(l.v), max(r.v) {from} GROUP BY l.small, r.open");
    in_slices(&pair, &groups, "groups").await;
}

#[tokio::test]
async fn outer_joins_of_a_heavy_build_key() {
    outer_joins(BUILD, &["", CONDITIONS[1]]).await;
}

#[tokio::test]
async fn outer_joins_of_a_heavy_probe_key() {
    outer_joins(PROBE, &["", CONDITIONS[1]]).await;
}

#[tokio::test]
async fn outer_joins_of_a_key_that_is_heavy_on_both_sides() {
    outer_joins(BOTH, &["", CONDITIONS[0], CONDITIONS[1], CONDITIONS[2]]).await;
}

#[tokio::test]
async fn conditional_existence_tests_of_a_heavy_key() {
    for (shape, conditions) in [
        (BUILD, &CONDITIONS[1..2]),
        (PROBE, &CONDITIONS[1..2]),
        (BOTH, &CONDITIONS[..]),
    ] {
        let pair = pair_of(shape);
        for condition in conditions {
            let exists = format!("EXISTS (SELECT 1 FROM r WHERE r.k = l.k{condition})");
            for filter in [
                exists.clone(),
                format!("NOT {exists}"),
                format!("l.open OR {exists}"),
            ] {
                let sql = format!("SELECT count(*), sum(l.v), count(l.k) FROM l WHERE {filter}");
                in_slices(&pair, &sql, &format!("{shape:?}")).await;
            }
        }
    }
}

/// NULL is a key like others, and is the heavy one.
#[tokio::test]
async fn heavy_null_key_is_joined_in_slices() {
    let pair = pair_of(BOTH);
    for kind in ["LEFT JOIN", "FULL JOIN"] {
        for condition in ["", CONDITIONS[1]] {
            let sql = format!(
                "SELECT count(*), sum(l.v), sum(r.v), count(r.small), count(l.small) FROM l {kind} r ON (nullif(l.k, 7) IS NOT DISTINCT FROM nullif(r.k, 7)){condition}"
            );
            in_slices(&pair, &sql, kind).await;
        }
    }
}

/// Each partition of another join is combined with all slices, and CPU operators compute a preserved side.
#[tokio::test]
async fn slices_are_combined_with_another_join_and_rows_of_the_cpu() {
    let pair = pair("256 KiB", skewed(9_000, 8_000), skewed(9_100, 20));
    pair.table("q", &[table(9_000, false, |row| row * 7919 % 9_000)]);
    for condition in ["", CONDITIONS[1]] {
        let from = format!("FROM l LEFT JOIN r ON l.k = r.k{condition}");
        let sql = format!(
            "SELECT count(*), sum(l.v), sum(r.v), sum(q.v), max(q.paid), min(q.weight) {from} LEFT JOIN q ON l.v % 9000 = q.k"
        );
        in_slices(&pair, &sql, "two joins").await;
        let shown = partitions(&pair, &sql).await;
        assert!(
            shown.iter().any(|shown| shown.contains(" by ")),
            "{sql}\n{shown:?}"
        );
        // The CPU draws the random numbers.
        let rows = "(SELECT k + CAST(floor(random() / 2) AS BIGINT) AS k, v FROM l)";
        let sql = format!(
            "SELECT count(*), sum(l.v), sum(r.v) FROM {rows} AS l LEFT JOIN r ON l.k = r.k{condition}"
        );
        in_slices(&pair, &sql, "rows of the CPU").await;
    }
}

/// A lookup stores equal keys once, however many rows have them.
#[tokio::test]
async fn existence_lookups_count_keys_instead_of_rows() {
    let skewed = |rows, heavy| table(rows, true, move |row| far(if row < heavy { 7 } else { row }));
    for (algorithm, heavy) in [("auto", 10_000), ("multipass", 12_000), ("triton", 10_000)] {
        let pair = pair_with("192 KiB", algorithm, skewed(12_000, heavy), skewed(9_000, 500));
        let exists = "EXISTS (SELECT 1 FROM r WHERE r.k = l.k)";
        for filter in [
            exists.to_owned(),
            format!("NOT {exists}"),
            format!("l.open OR {exists}"),
        ] {
            let sql = format!("SELECT count(*), sum(l.v), count(l.k) FROM l WHERE {filter}");
            pair.check(&sql, true, algorithm).await;
            let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
            assert!(
                plan.contains("10800 rows on the build side"),
                "{algorithm}\n{sql}\n{plan}"
            );
        }
    }
}

/// Tables with a key that is heavy on some side. A Triton join partitions them once.
fn stored(shape: [(i64, i64); 2], memory: &str) -> Pair {
    let [build, probe] = shape;
    pair_with(
        memory,
        "triton",
        skewed(build.0, build.1),
        skewed(probe.0, probe.1),
    )
}

/// Checks that each side is partitioned once. Returns the partitions as EXPLAIN ANALYZE shows them.
async fn partitioned_once(pair: &Pair, sql: &str, context: &str) -> String {
    pair.check(sql, true, context).await;
    let shown = text(pair, &format!("EXPLAIN ANALYZE {sql}")).await;
    assert!(
        shown.contains("sides partitioned once"),
        "{context}\n{sql}\n{shown}"
    );
    shown
}

#[tokio::test]
async fn rows_of_a_heavy_key_are_joined_in_parts_of_partitions() {
    for (context, shape) in [("build", BUILD), ("probe", PROBE), ("both", BOTH)] {
        let pair = stored(shape, "512 KiB");
        for condition in ["", CONDITIONS[0]] {
            let from = format!("FROM l JOIN r ON l.k = r.k{condition}");
            for sql in [
                format!("SELECT count(*), sum(l.v), sum(r.v), min(r.paid) {from}"),
                format!("SELECT l.small, r.open, count(*), sum(r.v) {from} GROUP BY l.small, r.open"),
            ] {
                let shown = partitioned_once(&pair, &sql, context).await;
                assert!(
                    shown.contains("joins because of rows with equal keys"),
                    "{context}\n{sql}\n{shown}"
                );
            }
        }
    }
}

/// Checks that each side is partitioned once, and a partition joined in parts.
async fn in_parts_of_partitions(pair: &Pair, sql: &str, context: &str) {
    let shown = partitioned_once(pair, sql, context).await;
    assert!(
        shown.contains("joins because of rows with equal keys"),
        "{context}\n{sql}\n{shown}"
    );
}

/// A preserved row has a match if it has one in any part of the other side.
#[tokio::test]
async fn preserved_rows_of_a_heavy_key_are_joined_in_parts_of_partitions() {
    for (context, shape) in [("build", BUILD), ("probe", PROBE), ("both", BOTH)] {
        let pair = stored(shape, "512 KiB");
        for kind in ["LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
            let sql = format!(
                "SELECT count(*), sum(l.v), sum(r.v), count(r.k), count(l.k), count(r.small) FROM l {kind} r ON l.k = r.k"
            );
            in_parts_of_partitions(&pair, &sql, context).await;
        }
        let sql = "SELECT l.k, l.v, r.k, r.v FROM l FULL JOIN r ON l.k = r.k AND l.small < 3";
        pair.check(sql, true, context).await;
        for condition in [CONDITIONS[0], CONDITIONS[1], CONDITIONS[2]] {
            let exists = format!("EXISTS (SELECT 1 FROM r WHERE r.k = l.k{condition})");
            for filter in [
                exists.clone(),
                format!("NOT {exists}"),
                format!("l.open OR {exists}"),
            ] {
                let sql = format!("SELECT count(*), sum(l.v), count(l.k) FROM l WHERE {filter}");
                in_parts_of_partitions(&pair, &sql, context).await;
            }
        }
    }
}

/// Each match of an outer join with conditions has a bit, and a heavy key has too many matches for that.
#[tokio::test]
async fn outer_joins_with_conditions_of_a_heavy_key_read_both_sides_per_slice() {
    let pair = stored(PROBE, "512 KiB");
    let sql =
        "SELECT count(*), sum(l.v), sum(r.v), count(r.k) FROM l LEFT JOIN r ON l.k = r.k AND r.v - l.v = 0";
    pair.check(sql, true, "conditions").await;
}
