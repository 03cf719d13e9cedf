//! Window functions: everything runs in pipelines, and is what DataFusion's CPU operators say.
//!
//! Functions that depend on the order of equal rows are over orders without any: `v` is unique.

use crate::compare::{Pair, same, same_in_order};
use crate::data::{Shape, batch};
use crate::joins::{STRICT, star, text};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

async fn check(pair: &Pair, sql: &str, context: &str) {
    if let Err(difference) = pair.compare(sql, same).await {
        panic!("{context}\n{sql}\n{difference}");
    }
}

/// Ranks, and what else is numbered in a partition.
const RANKS: &[&str] = &[
    "SELECT v, row_number() OVER (PARTITION BY k ORDER BY i8, v) AS n FROM t",
    "SELECT v, rank() OVER (PARTITION BY k ORDER BY i8) AS r, dense_rank() OVER (PARTITION BY k ORDER BY i8) AS d FROM t",
    "SELECT v, rank() OVER (PARTITION BY low ORDER BY i16 DESC) AS r,
            percent_rank() OVER (PARTITION BY low ORDER BY i16 DESC) AS p,
            cume_dist() OVER (PARTITION BY low ORDER BY i16 DESC) AS c FROM t",
    "SELECT v, ntile(3) OVER (PARTITION BY low ORDER BY v) AS a, ntile(1000) OVER (PARTITION BY low ORDER BY v) AS b FROM t",
    "SELECT v, row_number() OVER (ORDER BY d38 DESC NULLS LAST, v) AS n FROM t",
    "SELECT v, rank() OVER (ORDER BY f64 NULLS FIRST) AS r FROM t WHERE i16 > 0",
    "SELECT v, dense_rank() OVER (ORDER BY view, flag DESC) AS r FROM t",
    "SELECT v, rank() OVER (PARTITION BY flag, u8 ORDER BY day, ts) AS r FROM t",
    "SELECT v, rank() OVER (PARTITION BY d38 ORDER BY u64 DESC) AS r, dense_rank() OVER (PARTITION BY f32 ORDER BY i64) AS d FROM t",
    "SELECT v, rank() OVER () AS r, dense_rank() OVER (PARTITION BY k) AS d, percent_rank() OVER (PARTITION BY k) AS p FROM t",
    "SELECT v, rank() OVER (PARTITION BY i8 + k ORDER BY abs(i16)) AS r FROM t",
    "SELECT i8, i16, i32, i64, u8, u32, u64, d9, d18, d38, f32, f64, day, ts, flag, low, high, view, k, v,
            row_number() OVER (PARTITION BY low ORDER BY v DESC) AS n FROM t",
];

/// Values of other rows.
const VALUES: &[&str] = &[
    "SELECT v, lag(i64) OVER (PARTITION BY k ORDER BY v) AS a, lead(i64) OVER (PARTITION BY k ORDER BY v) AS b FROM t",
    "SELECT v, lag(i16, 2, -1) OVER (PARTITION BY low ORDER BY v) AS a, lead(d9, 3, 1.5) OVER (PARTITION BY low ORDER BY v) AS b FROM t",
    "SELECT v, lag(f64, 1, 0.5) OVER (ORDER BY v) AS a, lead(flag, 1, true) OVER (ORDER BY v) AS b, lag(view) OVER (ORDER BY v) AS c FROM t",
    "SELECT v, lag(low, 0) OVER (ORDER BY v) AS a, lead(day, 100000) OVER (ORDER BY v) AS b, lag(u64, -2) OVER (ORDER BY v) AS c FROM t",
    "SELECT v, first_value(i32) OVER (PARTITION BY k ORDER BY i8, v) AS a, last_value(high) OVER (PARTITION BY k ORDER BY i8, v) AS b FROM t",
    "SELECT v, last_value(d38) OVER (PARTITION BY k ORDER BY v ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS a,
            nth_value(low, 3) OVER (PARTITION BY k ORDER BY v ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING) AS b,
            nth_value(i64, -2) OVER (PARTITION BY k ORDER BY v ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING) AS c FROM t",
    "SELECT v, first_value(ts) OVER (PARTITION BY low ORDER BY v ROWS BETWEEN 3 FOLLOWING AND 5 FOLLOWING) AS a,
            last_value(f32) OVER (PARTITION BY low ORDER BY v ROWS BETWEEN 5 PRECEDING AND 3 PRECEDING) AS b FROM t",
];

/// Aggregates of whole partitions, and of those so far.
const AGGREGATES: &[&str] = &[
    "SELECT v, sum(i64) OVER (PARTITION BY k) AS s, count(i64) OVER (PARTITION BY k) AS c, count(*) OVER (PARTITION BY k) AS n FROM t",
    "SELECT v, sum(i8) OVER (PARTITION BY low ORDER BY i16) AS s, min(i32) OVER (PARTITION BY low ORDER BY i16) AS a,
            max(i32) OVER (PARTITION BY low ORDER BY i16) AS b FROM t",
    "SELECT v, sum(d9) OVER (ORDER BY v) AS s, avg(d9) OVER (ORDER BY v) AS a, sum(d38) OVER (ORDER BY v) AS w FROM t",
    "SELECT v, sum(u64) OVER (ORDER BY v) AS s, max(u64) OVER (ORDER BY v) AS a, min(u64) OVER (ORDER BY v) AS b FROM t",
    "SELECT v, sum(f64) OVER (PARTITION BY k ORDER BY v) AS s, avg(f64) OVER (PARTITION BY k) AS a, avg(i16) OVER (PARTITION BY k ORDER BY v) AS b FROM t",
    "SELECT v, min(f64) OVER (PARTITION BY k ORDER BY v) AS a, max(f32) OVER (PARTITION BY k ORDER BY v) AS b FROM t",
    "SELECT v, min(low) OVER (PARTITION BY k ORDER BY v) AS a, max(view) OVER (PARTITION BY k ORDER BY i8) AS b, min(high) OVER (ORDER BY v) AS c FROM t",
    "SELECT v, min(d38) OVER (PARTITION BY k ORDER BY v) AS a, max(d38) OVER (PARTITION BY low) AS b, max(day) OVER (ORDER BY ts) AS c FROM t",
    "SELECT v, sum(i64) OVER (ORDER BY v DESC ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS s, count(low) OVER (ORDER BY v) AS c FROM t",
    "SELECT v, sum(d18 * d9) OVER (PARTITION BY k ORDER BY v) AS s, count(i8 + i16) OVER (PARTITION BY k ORDER BY v) AS c FROM t",
    "SELECT v, i64 - sum(i64) OVER (PARTITION BY k) AS s, CAST(sum(i16) OVER (PARTITION BY low) AS DOUBLE) / count(*) OVER () AS c FROM t",
];

/// Aggregates of frames.
const FRAMES: &[&str] = &[
    "SELECT v, sum(i64) OVER (PARTITION BY k ORDER BY v ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING) AS s,
            min(i16) OVER (PARTITION BY k ORDER BY v ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING) AS a,
            max(d38) OVER (PARTITION BY k ORDER BY v ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING) AS b FROM t",
    "SELECT v, sum(f64) OVER (ORDER BY v ROWS BETWEEN 40 PRECEDING AND 7 PRECEDING) AS s,
            avg(f32) OVER (ORDER BY v ROWS BETWEEN 7 FOLLOWING AND 90 FOLLOWING) AS a,
            count(*) OVER (ORDER BY v ROWS BETWEEN 7 FOLLOWING AND 90 FOLLOWING) AS c FROM t",
    "SELECT v, sum(d9) OVER (PARTITION BY low ORDER BY v ROWS 5 PRECEDING) AS s,
            avg(d18) OVER (PARTITION BY low ORDER BY v ROWS BETWEEN CURRENT ROW AND 4 FOLLOWING) AS a FROM t",
    "SELECT v, sum(i32) OVER (ORDER BY i8 GROUPS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS s,
            count(i32) OVER (ORDER BY i8 GROUPS BETWEEN 3 PRECEDING AND 1 PRECEDING) AS c,
            max(low) OVER (ORDER BY i8 GROUPS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) AS m FROM t",
    "SELECT v, sum(i32) OVER (PARTITION BY k ORDER BY i8 DESC NULLS LAST GROUPS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS s,
            min(f64) OVER (PARTITION BY k ORDER BY i8 GROUPS 1 PRECEDING) AS m FROM t",
    "SELECT v, sum(i64) OVER (ORDER BY i16 RANGE BETWEEN 10 PRECEDING AND 5 FOLLOWING) AS s,
            count(*) OVER (ORDER BY i16 RANGE BETWEEN 20 PRECEDING AND 10 PRECEDING) AS c FROM t",
    "SELECT v, sum(i64) OVER (PARTITION BY k ORDER BY i16 DESC RANGE BETWEEN 10 PRECEDING AND 5 FOLLOWING) AS s,
            count(*) OVER (PARTITION BY k ORDER BY i16 DESC NULLS LAST RANGE BETWEEN 3 FOLLOWING AND UNBOUNDED FOLLOWING) AS c FROM t",
    "SELECT v, sum(d9) OVER (ORDER BY day RANGE BETWEEN INTERVAL '30' DAY PRECEDING AND CURRENT ROW) AS s,
            max(i32) OVER (PARTITION BY low ORDER BY day NULLS LAST RANGE BETWEEN INTERVAL '400' DAY PRECEDING AND INTERVAL '1' DAY FOLLOWING) AS m FROM t",
    "SELECT v, count(*) OVER (ORDER BY u8 RANGE BETWEEN UNBOUNDED PRECEDING AND 200 PRECEDING) AS c,
            min(v) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '100' DAY PRECEDING AND INTERVAL '1' HOUR FOLLOWING) AS m FROM t",
    "SELECT v, sum(i8) OVER (ORDER BY d9 RANGE BETWEEN 1000.00 PRECEDING AND 500.00 FOLLOWING) AS s FROM t",
];

/// What other pipelines make of rows with window functions.
const USED: &[&str] = &[
    "SELECT * FROM (SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY i32 DESC, v) AS n FROM t) WHERE n <= 3",
    "SELECT low, v, r FROM (SELECT low, v, rank() OVER (PARTITION BY low ORDER BY i16) AS r FROM t WHERE i8 > 0) WHERE r BETWEEN 2 AND 4",
    "SELECT k, count(*), sum(i64), max(n) FROM (SELECT k, i64, ntile(4) OVER (PARTITION BY k ORDER BY v) AS n FROM t) GROUP BY k",
    "SELECT r, count(*), min(low) FROM (SELECT low, dense_rank() OVER (ORDER BY i8) AS r FROM t) GROUP BY r",
    "SELECT k, sum(CASE WHEN r = 1 THEN i32 END) AS s FROM (SELECT k, i32, rank() OVER (PARTITION BY low ORDER BY i32 DESC) AS r FROM t) GROUP BY k",
    "SELECT a.v, b.v, a.n FROM (SELECT v, row_number() OVER (ORDER BY v) AS n FROM t) a
     JOIN (SELECT v, row_number() OVER (ORDER BY v DESC) AS n FROM t) b ON a.n = b.n",
    "SELECT v, r, row_number() OVER (PARTITION BY r ORDER BY v) AS n
     FROM (SELECT v, rank() OVER (PARTITION BY k ORDER BY i8) AS r FROM t)",
    "SELECT v, rank() OVER (PARTITION BY k ORDER BY i8) AS a, rank() OVER (PARTITION BY low ORDER BY i16) AS b,
            sum(i32) OVER (PARTITION BY flag) AS c, row_number() OVER (ORDER BY v) AS d FROM t",
    "SELECT v, sum(i32) OVER (PARTITION BY k ORDER BY v) AS a, sum(i32) OVER (PARTITION BY k) AS b, lag(v) OVER (PARTITION BY k ORDER BY v) AS c FROM t",
    "SELECT max(d), count(*) FROM (SELECT v - lag(v) OVER (PARTITION BY k ORDER BY v) AS d FROM t)",
];

async fn all(queries: &[&str], rows: usize, seed: u64, shape: Shape, settings: &[(&str, &str)]) {
    let pair = Pair::new(settings);
    pair.table("t", &[batch(rows, seed, shape)]);
    for sql in queries {
        check(&pair, sql, &format!("{shape:?}, {rows} rows, seed {seed}, {settings:?}")).await;
    }
}

/// Sizes around those of warps and tiles, then every distribution.
async fn everywhere(queries: &[&str]) {
    for (rows, seed) in [(0, 1), (1, 4), (31, 5), (32, 6), (33, 2)] {
        all(queries, rows, seed, Shape::Ordinary, &[STRICT]).await;
    }
    for shape in [Shape::Ordinary, Shape::AllNull, Shape::AllEqual, Shape::Skewed] {
        all(queries, 1500, 3, shape, &[STRICT, ("galatea.chunk_rows", "400")]).await;
    }
}

#[tokio::test]
async fn rows_are_ranked_as_by_the_cpu() {
    everywhere(RANKS).await;
}

#[tokio::test]
async fn values_of_other_rows_are_those_of_the_cpu() {
    everywhere(VALUES).await;
}

#[tokio::test]
async fn aggregates_so_far_are_those_of_the_cpu() {
    everywhere(AGGREGATES).await;
}

#[tokio::test]
async fn aggregates_of_frames_are_those_of_the_cpu() {
    everywhere(FRAMES).await;
}

#[tokio::test]
async fn rows_with_window_functions_are_rows_of_other_pipelines() {
    everywhere(USED).await;
}

/// Plans name the functions and their window, and an order above that is the window's costs no other sort.
#[tokio::test]
async fn plans_name_windows() {
    let pair = Pair::new(&[STRICT]);
    pair.table("t", &[batch(4000, 7, Shape::Ordinary)]);
    for (sql, parts) in [
        (
            "SELECT k, v, rank() OVER (PARTITION BY k ORDER BY i8 DESC) AS r FROM t",
            &[
                "rows of d0",
                "functions=[rank()]",
                "partition by=k",
                "order by=i8 DESC",
            ][..],
        ),
        (
            "SELECT k, v FROM (SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY i8, v) AS n FROM t) WHERE n < 3",
            &["functions=[row_number()]", "filters=["],
        ),
        (
            "SELECT k, v, sum(i64) OVER (PARTITION BY k ORDER BY v ROWS 2 PRECEDING) AS s, lag(v, 2) OVER (PARTITION BY k ORDER BY v) AS l FROM t",
            &["functions=[sum(i64) over rows 2 preceding to current row, lag(v)]"],
        ),
        (
            "SELECT k, v, rank() OVER (PARTITION BY k ORDER BY v) AS r FROM t ORDER BY k, v",
            &["sorted by="],
        ),
    ] {
        let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
        println!("{plan}");
        assert!(parts.iter().all(|part| plan.contains(part)), "{plan}");
        assert!(!plan.contains("WindowAggExec") && !plan.contains("SortExec"), "{plan}");
    }
}
