//! Out-of-core joins, with a build side larger than device memory: all join types, with all keys and
//! consumers of their rows, run on the device partition by partition and return the CPU's answers.

use crate::builds::BUILT;
use crate::compare::Pair;
use crate::joins::{STRICT, text};
use crate::partitions::partitions;
use datafusion::arrow::array::AsArray;
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int32Array, Int64Array,
};
use datafusion::arrow::array::{RecordBatch, StringArray};
use datafusion::arrow::datatypes::Int64Type;
use std::sync::Arc;

fn limit(size: &'static str) -> (&'static str, &'static str) {
    ("galatea.memory.gpu_limit", size)
}

/// A table of `rows` rows with the keys of `key`, a tenth of them NULL if `nulls`.
pub(crate) fn table(rows: i64, nulls: bool, key: impl Fn(i64) -> i64) -> RecordBatch {
    let key = |row: i64| (!nulls || row % 10 != 3).then(|| key(row));
    let column = |array: ArrayRef| array;
    let texts = |of: &dyn Fn(i64) -> Option<i64>| -> ArrayRef {
        let texts = (0..rows).map(|row| of(row).map(|key| format!("key number {key}")));
        Arc::new(texts.collect::<StringArray>())
    };
    let decimals = (0..rows).map(|row| (row % 11 > 0).then_some(i128::from(row) * 1001));
    let decimals = decimals.collect::<Decimal128Array>();
    let columns = [
        ("k", column(Arc::new((0..rows).map(key).collect::<Int64Array>()))),
        (
            "v",
            column(Arc::new(
                (0..rows)
                    .map(|row| (row % 7 > 0).then_some(row * 3))
                    .collect::<Int64Array>(),
            )),
        ),
        ("name", texts(&key)),
        (
            "small",
            column(Arc::new(
                (0..rows).map(|row| Some(row as i32 % 5)).collect::<Int32Array>(),
            )),
        ),
        (
            "open",
            column(Arc::new(
                (0..rows)
                    .map(|row| (row % 13 > 0).then_some(row % 3 == 0))
                    .collect::<BooleanArray>(),
            )),
        ),
        (
            "paid",
            column(Arc::new(
                decimals.with_precision_and_scale(20, 2).expect("a decimal"),
            )),
        ),
        (
            "weight",
            column(Arc::new(
                (0..rows)
                    .map(|row| Some(row as f64 / 8.0))
                    .collect::<Float64Array>(),
            )),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .expect("one length")
}

/// Checks that the query runs only on the device, in at least `least` partitions.
async fn in_parts(pair: &Pair, sql: &str, least: usize, context: &str) {
    pair.check(sql, true, context).await;
    let told = partitions(pair, sql).await;
    let parts = told
        .iter()
        .filter_map(|told| told.split_once(" of d")?.0.parse::<usize>().ok());
    assert!(
        parts.clone().any(|parts| parts >= least),
        "{context}\n{sql}\n{told:?}"
    );
}

const UNIQUE: &[&str] = &[
    "SELECT count(*), sum(r.v), sum(s.v), min(r.paid) FROM s JOIN r ON s.k = r.k",
    "SELECT s.small, r.open, count(*), sum(r.v), max(r.paid) FROM s JOIN r ON s.k = r.k WHERE s.v % 2 = 0 AND r.small > 1 GROUP BY s.small, r.open",
    "SELECT s.k % 100 AS g, count(*), sum(r.v) FROM s JOIN r ON s.k = r.k GROUP BY g",
    "SELECT s.k, s.v, r.v, r.small FROM s LEFT JOIN r ON s.k = r.k WHERE s.small <> 2",
    "SELECT r.k, r.v, s.v FROM r RIGHT JOIN s ON s.k = r.k WHERE s.small = 2",
    "SELECT count(*), sum(s.v) FROM s WHERE EXISTS (SELECT 1 FROM r WHERE r.k = s.k AND r.small <> 2)",
    "SELECT count(*), sum(s.v) FROM s WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = s.k)",
    "SELECT s.k, s.v FROM s WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = s.k AND r.v > 10)",
    "SELECT count(*), sum(s.v) FROM s WHERE s.small = 1 OR EXISTS (SELECT 1 FROM r WHERE r.k = s.k)",
];

/// Numbers too sparse for arrays by key.
pub(crate) fn far(row: i64) -> i64 {
    row.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 2
}

#[tokio::test]
async fn out_of_core_join_with_unique_build_keys() {
    let pair = Pair::new(&[
        STRICT,
        BUILT,
        limit("256 KiB"),
        ("galatea.tuning.chunk_rows", "4096"),
    ]);
    // 7919 divides neither number of rows.
    pair.table("r", &[table(60_000, false, |row| row * 7919 % 60_000)]);
    pair.table("s", &[table(70_000, true, |row| row * 31 % 65_000)]);
    // An existence test takes one bit of memory per key, which fits.
    let (values, bits) = UNIQUE.split_at(5);
    for sql in values {
        in_parts(&pair, sql, 2, "keys next to each other").await;
    }
    for sql in bits {
        pair.check(sql, true, "bits").await;
    }
}

/// The bytes over the link and the EXPLAIN ANALYZE of a query, with this algorithm, memory and chunk size.
async fn transferred(
    algorithm: &'static str,
    memory: &'static str,
    chunk_rows: &'static str,
    sql: &str,
) -> (u64, String) {
    let pair = Pair::new(&[
        STRICT,
        BUILT,
        limit(memory),
        ("galatea.tuning.chunk_rows", chunk_rows),
        ("galatea.cache.device", "false"),
        ("galatea.join.algorithm", algorithm),
    ]);
    pair.table("r", &[table(20_000, true, |row| far(row * 7919 % 20_000))]);
    pair.table("s", &[table(20_000, true, |row| far(row * 31 % 25_000))]);
    let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
    pair.check(sql, true, memory).await;
    let report = galatea::last_query_report(&pair.gpu).expect("a report");
    (report.link_bytes, plan)
}

/// With many partitions, each side is scanned once to partition it, and once more to count its keys.
#[tokio::test]
async fn out_of_core_join_scans_each_side_once() {
    for sql in &UNIQUE[..5] {
        let (once, plan) = transferred("hash", "64 MiB", "1000", sql).await;
        assert!(!plan.contains("partitioned once"), "{plan}");
        for chunk_rows in ["1000", "4096"] {
            let (bytes, plan) = transferred("triton", "512 KiB", chunk_rows, sql).await;
            assert!(plan.contains("sides partitioned once"), "{sql}\n{plan}");
            assert!(
                bytes <= 4 * once,
                "{sql}: {bytes} bytes over the link, {once} for one scan\n{plan}"
            );
        }
    }
}

/// Each algorithm, forced, returns the CPU's answers, with rows that fit device memory and with rows that do
/// not, over tables in one partition and in many.
#[tokio::test]
async fn forced_join_algorithms_match_the_cpu() {
    for (algorithm, shown, not_shown) in [
        ("hash", "strategy=", "partitions="),
        ("radix", "partitions=8, forced", "one after another"),
        ("multipass", "one after another", "partitioned once"),
        ("triton", "sides partitioned once", "one after another"),
    ] {
        for (memory, rows) in [("64 MiB", [2_000, 3_000]), ("1 MiB", [30_000, 35_000])] {
            let pair = Pair::new(&[
                STRICT,
                BUILT,
                limit(memory),
                ("galatea.tuning.chunk_rows", "1500"),
                ("galatea.join.algorithm", algorithm),
            ]);
            let [build, probe] = rows;
            pair.table("r", &[table(build, true, |row| far(row * 7919 % build))]);
            pair.table(
                "s",
                &[table(probe, true, |row| far(row * 31 % (build + build / 4)))],
            );
            for sql in UNIQUE {
                let context = format!("{algorithm} in {memory}");
                pair.check(sql, true, &context).await;
                let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
                // A build side that exceeds memory is partitioned by any algorithm.
                if memory == "64 MiB" {
                    assert!(plan.contains(shown), "{context}\n{sql}\n{plan}");
                    assert!(!plan.contains(not_shown), "{context}\n{sql}\n{plan}");
                }
            }
        }
    }
}

/// The rows of a partition are next to each other, wherever those of each batch end: whole words of NULL
/// flags, words with gaps, single rows; rows of one key exceed a piece.
#[tokio::test]
async fn triton_join_gathers_rows_of_any_number_of_batches() {
    for chunk_rows in ["31", "32", "33", "1000"] {
        let pair = Pair::new(&[
            STRICT,
            BUILT,
            limit("1 MiB"),
            ("galatea.tuning.chunk_rows", chunk_rows),
            ("galatea.join.algorithm", "triton"),
        ]);
        pair.table("r", &[table(1_500, false, far)]);
        // A third of the rows have one key.
        let key = |row: i64| far(if row % 3 == 0 { 7 } else { row % 1_700 });
        pair.table("s", &[table(20_000, true, key)]);
        for sql in [UNIQUE[0], UNIQUE[3], UNIQUE[5]] {
            pair.check(sql, true, chunk_rows).await;
            let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
            assert!(plan.contains("sides partitioned once"), "{sql}\n{plan}");
        }
    }
}

/// Operators of the CPU below a join run once, so that random keys are the same in every partition.
#[tokio::test]
async fn rows_of_cpu_operators_are_computed_once() {
    for algorithm in ["auto", "multipass", "triton"] {
        let pair = Pair::new(&[
            STRICT,
            BUILT,
            limit("384 KiB"),
            ("galatea.tuning.chunk_rows", "4096"),
            ("galatea.join.algorithm", algorithm),
        ]);
        pair.table("r", &[table(30_000, false, |row| row * 7919 % 30_000)]);
        pair.table("s", &[table(20_000, false, |row| row)]);
        let random = "(SELECT CAST(floor(random() * 30000) AS BIGINT) AS k, v FROM s)";
        let sql = format!("SELECT count(*), count(r.paid + s.v) FROM {random} AS s JOIN r ON s.k = r.k");
        for run in 0..2 {
            let rows = pair
                .gpu
                .sql(&sql)
                .await
                .expect("a plan")
                .collect()
                .await
                .expect("rows");
            let count = rows[0].column(0).as_primitive::<Int64Type>().value(0);
            assert_eq!(count, 20_000, "{algorithm}, run {run}");
        }
        let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
        assert!(plan.contains(" of d0"), "{algorithm}\n{plan}");
    }
}

/// Sides without rows, of one row, with equal keys only, and with NULL keys only.
#[tokio::test]
async fn out_of_core_join_of_degenerate_sides() {
    let pair = Pair::new(&[
        STRICT,
        BUILT,
        limit("384 KiB"),
        ("galatea.tuning.chunk_rows", "4096"),
        ("galatea.join.algorithm", "triton"),
    ]);
    pair.table("r", &[table(20_000, true, |row| far(row * 7919 % 20_000))]);
    for (name, rows, key) in [
        ("none", 0, far as fn(i64) -> i64),
        ("one", 1, far),
        ("warp", 33, far),
        ("same", 9_000, |_| far(7)),
        ("missing", 9_000, |row| -far(row) - 1),
    ] {
        pair.table(name, &[table(rows, rows > 1, key)]);
        for kind in ["JOIN", "LEFT JOIN"] {
            let sql = format!(
                "SELECT count(*), count(r.k), sum(r.v), max(r.paid), sum(s.v) FROM {name} AS s {kind} r ON s.k = r.k"
            );
            pair.check(&sql, false, name).await;
        }
    }
    let nulls =
        "SELECT count(*), count(r.k), sum(s.v) FROM r AS s LEFT JOIN r ON s.k = r.k WHERE s.k IS NULL";
    pair.check(nulls, false, "NULL keys").await;
}

/// EXPLAIN shows the algorithm of a join before a run, by the rows of the build side and device memory, and
/// the predicted times of all algorithms.
#[tokio::test]
async fn explain_shows_planned_out_of_core_joins() {
    for (memory, planned) in [("256 KiB", "out of core"), ("64 MiB", "")] {
        let pair = Pair::new(&[
            STRICT,
            BUILT,
            limit(memory),
            ("galatea.tuning.chunk_rows", "4096"),
        ]);
        pair.table("r", &[table(60_000, false, |row| row * 7919 % 60_000)]);
        pair.table("s", &[table(70_000, true, |row| row * 31 % 65_000)]);
        // The columns of the build side are arrays by key, or multimaps if keys repeat.
        for (sql, otherwise) in [
            (UNIQUE[0], "device lookup"),
            (
                "SELECT l.k, l.v, r.v FROM s AS l FULL JOIN s AS r ON l.k = r.k",
                "multimap",
            ),
        ] {
            let expected = if planned.is_empty() { otherwise } else { planned };
            // The device is open after a query has run on it.
            pair.check("SELECT sum(v) FROM r", true, memory).await;
            let plan = text(&pair, &format!("EXPLAIN {sql}")).await;
            assert!(plan.contains(expected), "{memory}\n{sql}\n{plan}");
            // Both build sides fit the cache of the emulated device.
            let costs = plan.split("join costs=").nth(1);
            assert_eq!(costs.is_some(), !planned.is_empty(), "{memory}\n{sql}\n{plan}");
            if let Some(costs) = costs {
                for shown in [
                    "hash exceeds device memory",
                    "radix exceeds",
                    "triton ",
                    "multipass ",
                ] {
                    assert!(costs.contains(shown), "{shown}\n{sql}\n{plan}");
                }
            }
        }
    }
}

/// A build side beyond the cache of the emulated device, 4 MiB, that fits its memory.
#[tokio::test]
async fn explain_shows_the_time_of_each_join_algorithm() {
    let pair = Pair::new(&[STRICT, BUILT, limit("64 MiB")]);
    pair.table("r", &[table(300_000, false, |row| row * 7919 % 300_000)]);
    pair.check("SELECT sum(v) FROM r", true, "opens the device").await;
    let sql = "EXPLAIN SELECT sum(r.v + s.v), max(r.paid), max(s.paid) FROM r AS s JOIN r ON s.k = r.k";
    let plan = text(&pair, sql).await;
    let costs = plan.split("join costs=").nth(1);
    let costs = costs.unwrap_or_else(|| panic!("no costs\n{plan}"));
    for algorithm in ["hash ", "radix ", "triton ", "multipass "] {
        let time = costs.split(algorithm).nth(1);
        let time = time.unwrap_or_else(|| panic!("{algorithm}\n{plan}"));
        assert!(
            time.starts_with(|first: char| first.is_ascii_digit()),
            "{algorithm}\n{plan}"
        );
    }
}

/// Other pipelines produce the probe rows.
#[tokio::test]
async fn out_of_core_join_with_pipeline_probe_rows() {
    let pair = Pair::new(&[
        STRICT,
        BUILT,
        limit("1 MiB"),
        ("galatea.tuning.chunk_rows", "4096"),
    ]);
    pair.table("r", &[table(60_000, false, |row| row * 7919 % 60_000)]);
    pair.table("s", &[table(70_000, false, |row| row * 31 % 65_000)]);
    let sql = "SELECT count(*), sum(r.v), max(r.paid), max(r.weight), max(r.small) FROM \
               (SELECT k FROM s UNION ALL SELECT k FROM s WHERE small = 1) AS u JOIN r ON u.k = r.k";
    in_parts(&pair, sql, 2, "rows of other pipelines").await;
}

#[tokio::test]
async fn out_of_core_join_with_sparse_keys() {
    let pair = Pair::new(&[
        STRICT,
        BUILT,
        limit("256 KiB"),
        ("galatea.tuning.chunk_rows", "4096"),
    ]);
    pair.table("r", &[table(20_000, false, |row| far(row * 7919 % 20_000))]);
    pair.table("s", &[table(30_000, true, |row| far(row * 31 % 25_000))]);
    for sql in UNIQUE {
        in_parts(&pair, sql, 2, "keys far apart").await;
    }
}

/// Several matches for each row, and rows without any, on both sides.
#[tokio::test]
async fn out_of_core_multimap_join() {
    multimap_join("multipass", "256 KiB", "4096", "one after another").await;
}

/// The same, with each side partitioned once.
#[tokio::test]
async fn triton_multimap_join() {
    multimap_join("triton", "768 KiB", "500", "sides partitioned once").await;
}

async fn multimap_join(algorithm: &str, memory: &'static str, chunk_rows: &str, shown: &str) {
    let pair = Pair::new(&[
        STRICT,
        BUILT,
        limit(memory),
        ("galatea.tuning.chunk_rows", chunk_rows),
        ("galatea.join.algorithm", algorithm),
    ]);
    let in_parts = async |pair: &Pair, sql: &str, least, context: &str| {
        in_parts(pair, sql, least, context).await;
        let plan = text(pair, &format!("EXPLAIN ANALYZE {sql}")).await;
        assert!(plan.contains(shown), "{algorithm}\n{sql}\n{plan}");
    };
    pair.table("l", &[table(14_000, true, |row| row * 31 % 9_000)]);
    pair.table("r", &[table(16_000, true, |row| row * 7 % 11_000)]);
    for kind in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
        for condition in [
            "l.k = r.k",
            "l.k = r.k AND l.v < r.v",
            "l.k = r.k AND l.weight = r.weight",
        ] {
            let from = format!("FROM l {kind} r ON {condition}");
            let rows = format!("SELECT l.k, l.v, r.k, r.v, r.open {from}");
            in_parts(&pair, &rows, 2, &from).await;
            if condition != "l.k = r.k" {
                continue;
            }
            let groups = format!(
                "SELECT l.small, count(*), count(l.k), count(r.k), sum(r.v), max(l.paid), min(r.open) {from} GROUP BY l.small"
            );
            in_parts(&pair, &groups, 2, &from).await;
            let one = format!("SELECT count(*), sum(l.v), sum(r.paid), avg(l.weight) {from}");
            in_parts(&pair, &one, 2, &from).await;
        }
    }
    for sql in [
        "SELECT l.k, l.v FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.v > l.v)",
        "SELECT count(*), sum(l.v) FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.v > l.v)",
        "SELECT count(*), sum(l.v) FROM l WHERE l.open OR EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.v > l.v)",
    ] {
        in_parts(&pair, sql, 2, "conditions").await;
    }
}

/// Matches of an out-of-core join are a build side, the probe side of another join, rows of a union, and rows
/// of a window. Each of these has a slot for each match.
#[tokio::test]
async fn matches_of_an_out_of_core_join_are_counted_for_sinks_with_slots() {
    for (algorithm, chunk_rows) in [("multipass", "4096"), ("triton", "500")] {
        let pair = Pair::new(&[
            STRICT,
            BUILT,
            limit("768 KiB"),
            ("galatea.tuning.chunk_rows", chunk_rows),
            ("galatea.join.algorithm", algorithm),
            ("galatea.join.order", "written"),
        ]);
        pair.table("l", &[table(14_000, true, |row| row * 31 % 9_000)]);
        pair.table("r", &[table(16_000, true, |row| row * 7 % 11_000)]);
        pair.table("s", &[table(600, true, |row| row % 300 * 3)]);
        let matches = "FROM l JOIN r ON l.k = r.k AND (l.v + r.v) % 10 < 3";
        for sql in [
            format!(
                "SELECT count(*), sum(x.w), sum(s.v) FROM s JOIN (SELECT l.v AS v, r.v AS w {matches}) x ON s.k = x.v"
            ),
            format!("SELECT count(*), sum(l.v), sum(s.v) {matches} JOIN s ON s.k = l.v"),
            format!("SELECT count(*), sum(r.v), count(s.v) {matches} LEFT JOIN s ON s.k = l.v"),
            format!(
                "SELECT small, count(*) FROM (SELECT l.small {matches} UNION ALL SELECT small FROM s) GROUP BY small"
            ),
            format!(
                "SELECT n, count(*) FROM (SELECT row_number() OVER (PARTITION BY l.small ORDER BY l.v, r.v) AS n {matches}) WHERE n < 4 GROUP BY n"
            ),
        ] {
            in_parts(&pair, &sql, 2, algorithm).await;
        }
    }
}

/// Strings, decimals, keys of several parts.
#[tokio::test]
async fn out_of_core_join_keys_of_every_type() {
    let pair = Pair::new(&[
        STRICT,
        BUILT,
        limit("320 KiB"),
        ("galatea.tuning.chunk_rows", "4096"),
    ]);
    pair.table("l", &[table(20_000, true, |row| row * 31 % 17_000 - 3_000)]);
    pair.table("r", &[table(20_000, true, |row| row * 7 % 18_000 - 3_500)]);
    for (condition, least) in [
        ("l.name = r.name", 2),
        ("l.k = r.k AND l.small = r.small", 2),
        ("l.paid = r.paid", 2),
        ("l.name = r.name AND l.open = r.open", 2),
    ] {
        let sql = format!("SELECT count(*), sum(l.v), sum(r.v), max(r.paid) FROM l JOIN r ON {condition}");
        in_parts(&pair, &sql, least, condition).await;
    }
}

/// Operators above a join: other joins, groups of groups, orders, limits, windows.
#[tokio::test]
async fn operators_above_an_out_of_core_join() {
    let pair = Pair::new(&[BUILT, limit("512 KiB"), ("galatea.tuning.chunk_rows", "4096")]);
    pair.table("r", &[table(20_000, false, |row| far(row * 7919 % 20_000))]);
    pair.table("s", &[table(24_000, true, |row| far(row * 31 % 25_000))]);
    pair.table("t", &[table(300, false, |row| row)]);
    for (number, sql) in [
        "SELECT t.small, count(*), sum(r.v), sum(t.v) FROM s JOIN r ON s.k = r.k JOIN t ON s.small = t.k GROUP BY t.small",
        "SELECT count(*), max(n) FROM (SELECT s.small, r.open, count(*) AS n FROM s JOIN r ON s.k = r.k GROUP BY s.small, r.open)",
        "SELECT count(DISTINCT r.small), count(*) FROM s JOIN r ON s.k = r.k",
        "SELECT s.k, s.v, r.v FROM s JOIN r ON s.k = r.k ORDER BY s.v, s.k LIMIT 20",
        "SELECT s.k, s.v, r.v FROM s JOIN r ON s.k = r.k WHERE s.small = 1 ORDER BY s.v, s.k",
        "SELECT s.k, s.v FROM s JOIN r ON s.k = r.k UNION ALL SELECT k, v FROM t WHERE k < 9",
        "SELECT k, n FROM (SELECT s.k, row_number() OVER (PARTITION BY s.small ORDER BY s.v, s.k) AS n FROM s JOIN r ON s.k = r.k) WHERE n < 4",
        "SELECT count(*) FROM (SELECT s.k FROM s JOIN r ON s.k = r.k LIMIT 100)",
    ]
    .into_iter()
    .enumerate()
    {
        pair.check(sql, false, "above").await;
        // Windows and rows of a limit need memory for each row, which does not fit here.
        let report = galatea::last_query_report(&pair.gpu).expect("a report");
        assert!(number > 5 || report.fell_back == 0, "{sql}\n{:?}", report.reasons);
    }
}

/// Two build sides of a pipeline; neither fits.
#[tokio::test]
async fn out_of_core_join_with_two_build_sides() {
    let r = table(20_000, false, |row| far(row * 7919 % 20_000));
    let q = table(16_000, false, |row| far(row * 31 % 16_000) + 1);
    let twice = table(30_000, true, |row| row * 7 % 20_000);
    let keys = (0..12_000i64).map(|row| (far(row * 13 % 25_000), far(row * 17 % 19_000) + 1, row % 7_000));
    let (mut first, mut second, mut third) = (Vec::new(), Vec::new(), Vec::new());
    for (row, (one, two, three)) in keys.enumerate() {
        first.push((row % 10 != 3).then_some(one));
        second.push((row % 11 != 4).then_some(two));
        third.push(Some(three));
    }
    let columns = [("a", first), ("b", second), ("c", third)]
        .map(|(name, values)| (name, Arc::new(Int64Array::from(values)) as ArrayRef, true));
    let s = RecordBatch::try_from_iter_with_nullable(columns).expect("one length");
    let unique = [
        "SELECT count(*), sum(r.v), sum(q.v), min(q.paid) FROM s JOIN r ON s.a = r.k JOIN q ON s.b = q.k",
        "SELECT r.small, q.small, count(*), sum(q.v) FROM s JOIN r ON s.a = r.k JOIN q ON s.b = q.k GROUP BY r.small, q.small",
        "SELECT s.c, r.v, q.v FROM s LEFT JOIN r ON s.a = r.k LEFT JOIN q ON s.b = q.k",
        "SELECT s.c, r.v FROM s JOIN r ON s.a = r.k WHERE NOT EXISTS (SELECT 1 FROM q WHERE q.k = s.b AND q.small <> 2)",
    ];
    // Multimap joins, which need additional memory beside the build sides.
    let pairs = [
        "SELECT count(*), sum(r.v), sum(twice.v) FROM s JOIN twice ON s.c = twice.k JOIN r ON s.a = r.k",
        "SELECT s.c, r.v, twice.v FROM s LEFT JOIN twice ON s.c = twice.k LEFT JOIN r ON s.a = r.k",
    ];
    for (memory, statements) in [("256 KiB", &unique[..]), ("512 KiB", &pairs)] {
        let pair = Pair::new(&[
            STRICT,
            BUILT,
            limit(memory),
            ("galatea.tuning.chunk_rows", "4096"),
        ]);
        for (name, batch) in [("r", &r), ("q", &q), ("twice", &twice), ("s", &s)] {
            pair.table(name, std::slice::from_ref(batch));
        }
        for sql in statements {
            in_parts(&pair, sql, 2, "two build sides").await;
            let told = partitions(&pair, sql).await;
            assert!(told.iter().any(|told| told.contains(" by ")), "{sql}\n{told:?}");
        }
    }
}

/// The rows of one key exceed the memory of a partition, on the build side, on the probe side, and on both.
#[tokio::test]
async fn rows_of_one_oversized_key_are_joined_in_slices() {
    let skewed = |rows: i64, heavy: i64| table(rows, true, move |row| if row < heavy { 7 } else { row });
    for (build, probe, joins) in [
        ((12_000, 11_000), (12_100, 20), &["JOIN", "RIGHT JOIN"][..]),
        ((12_000, 20), (12_100, 11_000), &["JOIN", "LEFT JOIN"]),
        ((7_000, 6_000), (7_100, 300), &["JOIN"]),
    ] {
        let pair = Pair::new(&[
            STRICT,
            BUILT,
            limit("160 KiB"),
            ("galatea.tuning.chunk_rows", "2000"),
            ("galatea.join.order", "written"),
        ]);
        pair.table("r", &[skewed(build.0, build.1)]);
        pair.table("l", &[skewed(probe.0, probe.1)]);
        for join in joins {
            for condition in ["", " AND (r.v + l.v) % 3 = 0"] {
                let sql = format!(
                    "SELECT count(*), sum(l.v), sum(r.v), count(r.k), count(l.k) FROM l {join} r ON l.k = r.k{condition}"
                );
                let context = format!("{build:?} {probe:?}");
                pair.check(&sql, true, &context).await;
                let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
                assert!(
                    plan.contains("slices of rows with equal keys"),
                    "{context}\n{sql}\n{plan}"
                );
            }
        }
    }
    // Each row is returned at most once.
    let pair = Pair::new(&[
        STRICT,
        BUILT,
        limit("160 KiB"),
        ("galatea.tuning.chunk_rows", "2000"),
    ]);
    pair.table("r", &[skewed(3_000, 20)]);
    pair.table("l", &[skewed(14_000, 13_000)]);
    for sql in [
        "SELECT count(*), sum(l.v) FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.v > l.v)",
        "SELECT count(*), sum(l.v) FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.v > l.v)",
    ] {
        pair.check(sql, true, "once").await;
    }
}

/// A single key that does not fit runs on the CPU if its join cannot be sliced, and the report contains the
/// numbers. Preserved groups have no order in which they could be numbered.
#[tokio::test]
async fn single_oversized_key_falls_back_to_the_cpu() {
    let pair = Pair::new(&[BUILT, limit("256 KiB"), ("galatea.tuning.chunk_rows", "4096")]);
    pair.table("l", &[table(300, false, |row| row)]);
    pair.table(
        "r",
        &[table(40_000, false, |row| if row < 1_000 { row } else { 7 })],
    );
    let sql = "SELECT count(*), sum(l.v), sum(r.v) FROM (SELECT k, sum(v) AS v FROM l GROUP BY k) AS l LEFT JOIN r ON l.k = r.k AND r.v > l.v";
    pair.check(sql, false, "skew").await;
    let report = galatea::last_query_report(&pair.gpu).expect("a report");
    let told = report.reasons.iter().any(|reason| {
        reason.contains("rows of one partition")
            && reason.contains("262144")
            && reason.contains("galatea.memory.gpu_limit")
    });
    assert!(told, "{report:?}");
    pair.gpu
        .sql("SET galatea.fallback = 'error'")
        .await
        .expect("a setting")
        .collect()
        .await
        .expect("set");
    let error = pair
        .gpu
        .sql(sql)
        .await
        .expect("a plan")
        .collect()
        .await
        .expect_err("too much");
    assert!(error.to_string().contains("rows of one partition"), "{error}");
}

/// Strings that are group keys, or the minimum of a group, fill their initial memory. Then all partitions
/// start again with more.
#[tokio::test]
async fn out_of_core_join_restarts_with_more_string_memory() {
    // Group tables that are small at first have little memory for strings, too.
    let settings = [
        STRICT,
        BUILT,
        limit("1 MiB"),
        ("galatea.tuning.chunk_rows", "4096"),
        ("galatea.tuning.hash_slots", "64"),
    ];
    let pair = Pair::new(&settings);
    pair.table("r", &[table(60_000, false, |row| far(row * 7919 % 60_000))]);
    pair.table("s", &[table(70_000, true, |row| far(row * 31 % 65_000))]);
    for sql in [
        "SELECT concat('number ', s.v % 300) AS text, count(*), sum(r.v) FROM s JOIN r ON s.k = r.k GROUP BY text",
        "SELECT s.small, min(concat('number ', r.v)), max(concat(s.v, ' is the number')) FROM s JOIN r ON s.k = r.k GROUP BY s.small",
    ] {
        in_parts(&pair, sql, 2, "texts").await;
    }
}
