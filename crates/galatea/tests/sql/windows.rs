//! Window functions: everything runs in pipelines, and returns the results of DataFusion's CPU operators.
//!
//! Functions that depend on the order of equal rows use orders without ties: `v` is unique.

use crate::compare::{Pair, same, same_in_order};
use crate::data::{Shape, batch};
use crate::joins::{STRICT, star, text};
use datafusion::arrow::array::{ArrayRef, Float32Array, Float64Array, Int32Array, RecordBatch};
use datafusion::prelude::SessionContext;
use galatea_device::environment;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

async fn check(pair: &Pair, sql: &str, context: &str) {
    if let Err(difference) = pair.compare(sql, same).await {
        panic!("{context}\n{sql}\n{difference}");
    }
}

/// Ranks and other numbers within a partition.
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
    // NULL values are skipped.
    "SELECT v, first_value(i64) IGNORE NULLS OVER (PARTITION BY k ORDER BY v) AS a, last_value(low) IGNORE NULLS OVER (PARTITION BY k ORDER BY v) AS b FROM t",
    "SELECT v, nth_value(d38, 2) IGNORE NULLS OVER (PARTITION BY low ORDER BY v ROWS BETWEEN 3 PRECEDING AND 3 FOLLOWING) AS a,
            nth_value(f64, -3) IGNORE NULLS OVER (PARTITION BY low ORDER BY v ROWS BETWEEN 5 PRECEDING AND 4 FOLLOWING) AS b,
            last_value(ts) IGNORE NULLS OVER (PARTITION BY low ORDER BY v ROWS BETWEEN 9 PRECEDING AND 2 PRECEDING) AS c FROM t",
    "SELECT v, first_value(flag) IGNORE NULLS OVER (ORDER BY v DESC ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS a,
            first_value(v) IGNORE NULLS OVER (ORDER BY v ROWS BETWEEN 4 FOLLOWING AND 9 FOLLOWING) AS b FROM t",
    "SELECT v, lag(i16) IGNORE NULLS OVER (PARTITION BY k ORDER BY v) AS a, lag(d9, 3, 1.5) IGNORE NULLS OVER (PARTITION BY flag ORDER BY v) AS b FROM t",
    "SELECT v, lag(low, 2) IGNORE NULLS OVER (ORDER BY v DESC) AS b, lag(i8, 100000, 7) IGNORE NULLS OVER (ORDER BY v) AS c FROM t",
    "SELECT v, lead(i16) IGNORE NULLS OVER (PARTITION BY k ORDER BY v) AS a, lead(d9, 1, 1.5) IGNORE NULLS OVER (PARTITION BY flag ORDER BY v) AS b FROM t",
    "SELECT v, lead(low) IGNORE NULLS OVER (ORDER BY v DESC) AS a, lag(f64, -1, 0.5) IGNORE NULLS OVER (ORDER BY v) AS b,
            lead(day) IGNORE NULLS OVER (PARTITION BY i8 ORDER BY v) AS c FROM t",
    // Together with functions that DataFusion computes over whole partitions.
    "SELECT v, lead(i64, 2) IGNORE NULLS OVER w AS a, lead(d9, 5, 2.25) IGNORE NULLS OVER w AS b, lead(flag, 100000) IGNORE NULLS OVER w AS c,
            count(*) OVER (PARTITION BY k ORDER BY v ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS n
     FROM t WINDOW w AS (PARTITION BY k ORDER BY v)",
];

/// DISTINCT aggregates.
const DISTINCT: &[&str] = &[
    "SELECT v, count(DISTINCT i8) OVER (PARTITION BY k) AS a, sum(DISTINCT i16) OVER (PARTITION BY k) AS b, avg(DISTINCT d9) OVER (PARTITION BY k) AS c FROM t",
    "SELECT v, count(DISTINCT low) OVER (PARTITION BY k ORDER BY v) AS a, count(DISTINCT view) OVER (PARTITION BY k ORDER BY v) AS b,
            sum(i32) OVER (PARTITION BY k ORDER BY v) AS c FROM t",
    "SELECT v, count(DISTINCT f64) OVER (ORDER BY i8) AS a, count(DISTINCT f32) OVER (ORDER BY i8) AS b, count(DISTINCT flag) OVER (ORDER BY i8) AS c FROM t",
    "SELECT v, sum(DISTINCT d38) OVER (PARTITION BY low ORDER BY i16) AS a FROM t WHERE i16 IS NULL OR i16 % 3 = 0",
    "SELECT v, sum(DISTINCT i64) OVER (PARTITION BY low ORDER BY v ROWS BETWEEN UNBOUNDED PRECEDING AND 3 FOLLOWING) AS a,
            count(DISTINCT i64) OVER (PARTITION BY low ORDER BY v GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS b FROM t",
    "SELECT v, count(DISTINCT day) FILTER (WHERE i8 > 0) OVER (PARTITION BY k ORDER BY i16 RANGE BETWEEN UNBOUNDED PRECEDING AND 7 FOLLOWING) AS a,
            count(DISTINCT i8 + k) OVER (PARTITION BY k ORDER BY i16) AS b, max(DISTINCT i32) OVER (PARTITION BY k ORDER BY v ROWS 3 PRECEDING) AS c FROM t",
    "SELECT v, sum(DISTINCT f64) OVER (PARTITION BY k) AS a, avg(DISTINCT f64) OVER (PARTITION BY k ORDER BY v) AS b, avg(DISTINCT i16) OVER () AS c FROM t
     WHERE f64 BETWEEN -1e9 AND 1e9",
    "SELECT k, n, count(*), max(v) FROM (SELECT k, v, count(DISTINCT i8) OVER (PARTITION BY k ORDER BY v) AS n, row_number() OVER (PARTITION BY k ORDER BY v) AS r FROM t)
     WHERE r < 9 GROUP BY k, n",
];

/// Aggregates of whole partitions, and running aggregates.
const AGGREGATES: &[&str] = &[
    "SELECT v, sum(i8) FILTER (WHERE k > 3) OVER (PARTITION BY low ORDER BY v) AS s, count(*) FILTER (WHERE flag) OVER (PARTITION BY k) AS c,
            avg(f64) FILTER (WHERE i16 > 0) OVER (ORDER BY v ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING) AS a,
            min(low) FILTER (WHERE i8 < 5) OVER (PARTITION BY k) AS m FROM t",
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
    "SELECT v, sum(i64) OVER (ORDER BY f64 RANGE BETWEEN 1.5 PRECEDING AND 0.25 FOLLOWING) AS s,
            count(*) OVER (ORDER BY f64 RANGE BETWEEN UNBOUNDED PRECEDING AND 100 PRECEDING) AS c FROM t",
    "SELECT v, count(*) OVER (PARTITION BY k ORDER BY f32 DESC NULLS LAST RANGE BETWEEN 1e3 PRECEDING AND CURRENT ROW) AS s,
            min(v) OVER (PARTITION BY k ORDER BY f32 DESC NULLS LAST RANGE BETWEEN 0.5 FOLLOWING AND UNBOUNDED FOLLOWING) AS m FROM t",
    "SELECT v, sum(d9) OVER (ORDER BY day RANGE BETWEEN INTERVAL '1' MONTH PRECEDING AND CURRENT ROW) AS s,
            count(*) OVER (PARTITION BY k ORDER BY day DESC RANGE BETWEEN INTERVAL '1 year 2 months 3 days' PRECEDING AND INTERVAL '5' MONTH FOLLOWING) AS c FROM t",
    "SELECT v, count(*) OVER (ORDER BY day NULLS FIRST RANGE BETWEEN INTERVAL '3 months' FOLLOWING AND INTERVAL '1 year' FOLLOWING) AS c,
            max(v) OVER (ORDER BY day RANGE BETWEEN INTERVAL '36 hours' PRECEDING AND INTERVAL '12 hours' FOLLOWING) AS m FROM t",
];

/// Window functions as input of other pipelines.
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
        check(
            &pair,
            sql,
            &format!("{shape:?}, {rows} rows, seed {seed}, {settings:?}"),
        )
        .await;
    }
}

/// Runs the queries over every distribution, then some of them over sizes around those of warps.
async fn everywhere(queries: &[&str]) {
    for shape in [Shape::Ordinary, Shape::AllNull, Shape::AllEqual, Shape::Skewed] {
        let settings = [STRICT, ("galatea.tuning.chunk_rows", "400")];
        all(queries, 1500, 3, shape, &settings).await;
    }
    for (number, (rows, seed)) in [(0, 1), (1, 4), (31, 5), (32, 6), (33, 2)]
        .into_iter()
        .enumerate()
    {
        let some: Vec<&str> = queries.iter().skip(number % 2).step_by(2).copied().collect();
        all(&some, rows, seed, Shape::Ordinary, &[STRICT]).await;
    }
}

#[tokio::test]
async fn ranking_functions_match_the_cpu() {
    everywhere(RANKS).await;
}

#[tokio::test]
async fn value_functions_match_the_cpu() {
    everywhere(VALUES).await;
}

#[tokio::test]
async fn running_aggregates_match_the_cpu() {
    everywhere(AGGREGATES).await;
}

#[tokio::test]
async fn frame_aggregates_match_the_cpu() {
    everywhere(FRAMES).await;
}

#[tokio::test]
async fn distinct_window_aggregates_match_the_cpu() {
    everywhere(DISTINCT).await;
}

/// If a frame ends among peers, these count row by row in the order of the table, by `v`.
#[tokio::test]
async fn distinct_aggregates_process_peers_in_table_order() {
    let settings = [
        STRICT,
        ("galatea.tuning.block_threads", "32"),
        ("galatea.tuning.rows_per_thread", "1"),
    ];
    let pair = Pair::new(&settings);
    pair.table("t", &[batch(3000, 12, Shape::Skewed)]);
    let of = |order: &str| {
        format!(
            "SELECT v, count(DISTINCT i8) OVER w AS a, sum(DISTINCT i16) OVER w AS b, count(DISTINCT low) OVER w AS c, row_number() OVER w AS n
             FROM t WINDOW w AS (PARTITION BY k ORDER BY {order} ROWS UNBOUNDED PRECEDING)"
        )
    };
    let rows = async |ctx: &SessionContext, sql: &str| {
        let frame = ctx.sql(sql).await.expect("plans");
        frame.collect().await.expect("runs")
    };
    let expected = rows(&pair.cpu, &of("flag, v")).await;
    let actual = rows(&pair.gpu, &of("flag")).await;
    same(&expected, &actual).unwrap_or_else(|difference| panic!("{difference}"));
}

/// Distances of floats that are NaN, infinite, zeros of both signs, and adjacent.
#[tokio::test]
async fn float_range_frames_with_special_values() {
    let edges = [
        0.0,
        -0.0,
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        5e-324,
        1.0,
        1.0 + f64::EPSILON,
        0.1,
        0.2,
        0.3,
        1e16,
        1e16 + 2.0,
    ];
    let rows = 120;
    let value = |row: usize| (row % 7 != 3).then(|| edges[row * 5 % edges.len()]);
    let doubles: ArrayRef = Arc::new((0..rows).map(value).collect::<Float64Array>());
    let singles = (0..rows).map(|row| value(row).map(|value| value as f32));
    let singles: ArrayRef = Arc::new(singles.collect::<Float32Array>());
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..rows as i32));
    let columns = [("v", numbers, true), ("d", doubles, true), ("s", singles, true)];
    let table = RecordBatch::try_from_iter_with_nullable(columns).expect("one length");
    let pair = Pair::new(&[STRICT]);
    pair.table("t", &[table]);
    for key in ["d", "s"] {
        for order in ["", " DESC", " NULLS FIRST", " DESC NULLS LAST"] {
            for bounds in [
                "0 PRECEDING AND 0 FOLLOWING",
                "0.1 PRECEDING AND 0.2 FOLLOWING",
                "1e300 PRECEDING AND CURRENT ROW",
                "1 FOLLOWING AND 1e16 FOLLOWING",
                "UNBOUNDED PRECEDING AND 0.1 PRECEDING",
            ] {
                let bounds = if key == "s" {
                    bounds.replace("1e300", "1e30")
                } else {
                    bounds.to_owned()
                };
                let sql = format!(
                    "SELECT v, count(*) OVER w AS c, sum(v) OVER w AS s FROM t WINDOW w AS (PARTITION BY v % 3 ORDER BY {key}{order} RANGE BETWEEN {bounds})"
                );
                pair.check(&sql, true, "floats").await;
            }
        }
    }
}

#[tokio::test]
async fn pipelines_read_rows_with_window_functions() {
    everywhere(USED).await;
}

/// Plans name the functions and their window. An ORDER BY equal to the window's order needs no other sort.
#[tokio::test]
async fn plans_show_window_functions() {
    let pair = Pair::new(&[STRICT]);
    pair.table("t", &[batch(4000, 7, Shape::Ordinary)]);
    for (sql, parts) in [
        (
            "SELECT k, v, rank() OVER (PARTITION BY k ORDER BY i8 DESC) AS r FROM t",
            &[
                "ordered rows d0",
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
            &["sorted by=the order of the window"],
        ),
    ] {
        let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
        assert!(parts.iter().all(|part| plan.contains(part)), "{plan}");
        assert!(
            !plan.contains("WindowAggExec") && !plan.contains("SortExec"),
            "{plan}"
        );
    }
}

/// Windows over groups and joins, as in TPC-DS.
#[tokio::test]
async fn windows_over_groups_and_joins() {
    for (rows, seed) in [(33, 2), (1900, 3)] {
        let pair = Pair::new(&[STRICT, ("galatea.tuning.build_rows", "1")]);
        star(&pair, rows, seed);
        for sql in [
            "SELECT text, number, s, rank() OVER (PARTITION BY text ORDER BY s DESC) AS r
             FROM (SELECT text, number, sum(price) AS s FROM f GROUP BY text, number)",
            "SELECT * FROM (SELECT text, number, sum(m) AS s, rank() OVER (PARTITION BY text ORDER BY sum(m) DESC NULLS LAST) AS r
                            FROM f GROUP BY text, number) WHERE r <= 3",
            "SELECT text, number, sum(price) * 100.00 / sum(sum(price)) OVER (PARTITION BY text) AS share FROM f GROUP BY text, number HAVING sum(price) > 0",
            "SELECT number, day, sum(sum(m)) OVER (PARTITION BY number ORDER BY day ROWS UNBOUNDED PRECEDING) AS so_far FROM f GROUP BY number, day",
            "SELECT number, text, avg(sum(m)) OVER (PARTITION BY number) AS a, sum(m) - lag(sum(m)) OVER (PARTITION BY number ORDER BY text) AS d
             FROM f GROUP BY number, text",
            "SELECT n.name, f.v, row_number() OVER (PARTITION BY n.name ORDER BY f.v) AS r FROM f JOIN n ON f.number = n.k",
            "SELECT v, number, rank() OVER (PARTITION BY number ORDER BY v DESC) AS r FROM f WHERE number IN (SELECT k FROM n WHERE k > 0)",
            "SELECT a.number, a.v, b.v FROM (SELECT number, v, row_number() OVER (PARTITION BY number ORDER BY v) AS n FROM f) a
             JOIN (SELECT number, v, row_number() OVER (PARTITION BY number ORDER BY v DESC) AS n FROM f) b ON a.number = b.number AND a.n = b.n",
        ] {
            check(&pair, sql, &format!("{rows} rows, seed {seed}")).await;
        }
    }
}

/// Rows in the requested order, whether or not it is the window's.
#[tokio::test]
async fn order_by_above_windows_is_respected() {
    for rows in [0, 33, 3000] {
        let pair = Pair::new(&[STRICT, ("galatea.tuning.chunk_rows", "700")]);
        pair.table("t", &[batch(rows, 11, Shape::Ordinary)]);
        for sql in [
            "SELECT k, i8, v, row_number() OVER (PARTITION BY k ORDER BY i8 DESC, v) AS n FROM t ORDER BY k, i8 DESC, v",
            "SELECT k, v, sum(i16) OVER (PARTITION BY k ORDER BY v) AS s FROM t WHERE i8 > 0 ORDER BY k, v",
            "SELECT k, v, rank() OVER (PARTITION BY k ORDER BY v) AS r FROM t ORDER BY r DESC, k",
            "SELECT v, n FROM (SELECT v, row_number() OVER (ORDER BY v DESC) AS n FROM t) WHERE n % 3 = 0 ORDER BY v DESC",
            "SELECT v, rank() OVER (PARTITION BY k ORDER BY i8) AS r FROM t ORDER BY r, v LIMIT 20",
        ] {
            if let Err(difference) = pair.compare(sql, same_in_order).await {
                panic!("{rows} rows\n{sql}\n{difference}");
            }
        }
    }
}

/// Rows that are equal in the order of a window are in table order, by `v`.
#[tokio::test]
async fn window_peers_are_in_table_order() {
    let settings = [
        STRICT,
        ("galatea.tuning.block_threads", "32"),
        ("galatea.tuning.rows_per_thread", "1"),
    ];
    let pair = Pair::new(&settings);
    pair.table("t", &[batch(5000, 12, Shape::Ordinary)]);
    for (calls, partition, order) in [
        ("row_number() OVER w AS n", "", ""),
        ("row_number() OVER w AS n, lag(v) OVER w AS l", "", "k"),
        (
            "first_value(v) OVER w AS f, ntile(7) OVER w AS n",
            "PARTITION BY low",
            "i16",
        ),
    ] {
        let of_window = |order: &str| {
            format!(
                "SELECT v, {calls} FROM t WHERE i8 > 0 WINDOW w AS ({partition}{})",
                by(order)
            )
        };
        let rows = async |ctx: &SessionContext, sql: &str| {
            let frame = ctx.sql(sql).await.expect("plans");
            frame.collect().await.expect("runs")
        };
        let unique = match order {
            "" => "v".to_owned(),
            keys => format!("{keys}, v"),
        };
        let expected = rows(&pair.cpu, &of_window(&unique)).await;
        let actual = rows(&pair.gpu, &of_window(order)).await;
        same(&expected, &actual).unwrap_or_else(|difference| panic!("{calls}\n{difference}"));
    }
}

fn by(order: &str) -> String {
    match order {
        "" => String::new(),
        keys => format!(" ORDER BY {keys}"),
    }
}

/// If memory is short, the CPU computes windows, or the device does in turns. The answer is the same.
#[tokio::test]
async fn windows_match_the_cpu_in_little_memory() {
    for limit in ["100 KiB", "600 KiB", "2 MiB"] {
        let settings = [
            ("galatea.memory.gpu_limit", limit),
            ("galatea.tuning.chunk_rows", "500"),
            ("galatea.tuning.block_threads", "32"),
        ];
        for queries in [&RANKS[..4], &AGGREGATES[..3], &FRAMES[..2], &USED[..3]] {
            all(queries, 6000, 8, Shape::Ordinary, &settings).await;
        }
    }
}

/// The CPU computes the functions that the device does not support, and the plan shows the reason.
#[tokio::test]
async fn unsupported_windows_stay_on_the_cpu() {
    let pair = Pair::new(&[]);
    pair.table("t", &[batch(400, 7, Shape::Ordinary)]);
    let lead = "SELECT v, lead(i8, 2) IGNORE NULLS OVER (ORDER BY v) AS l FROM t";
    pair.check(lead, true, "supported").await;
    for (sql, reason) in [
        (
            "SELECT v, lead(i8, 0) IGNORE NULLS OVER (ORDER BY v) AS l FROM t",
            "IGNORE NULLS",
        ),
        (
            "SELECT v, count(*) FILTER (WHERE NULL) OVER (ORDER BY v) AS s FROM t",
            "FILTER",
        ),
        (
            "SELECT v, count(DISTINCT i8) OVER (PARTITION BY k ORDER BY v ROWS 3 PRECEDING) AS s FROM t",
            "a frame that does not begin with its partition",
        ),
        (
            "SELECT v, lag(low, 1, 'none') OVER (ORDER BY v) AS l FROM t",
            "a default that is a string",
        ),
        (
            "SELECT v, sum(i8) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1' MONTH PRECEDING AND CURRENT ROW) AS s FROM t",
            "months as a bound of a RANGE frame by timestamps",
        ),
    ] {
        check(&pair, sql, "refused").await;
        let plan = text(&pair, &format!("EXPLAIN {sql}")).await;
        assert!(plan.contains(reason) && plan.contains("WindowAggExec"), "{plan}");
    }
}

/// A query with a window of random functions.
fn random_query(rng: &mut SmallRng) -> String {
    let partitions = [
        "",
        "PARTITION BY k ",
        "PARTITION BY low, flag ",
        "PARTITION BY i8 ",
        "PARTITION BY high ",
    ];
    let partition = *partitions.choose(rng).expect("not empty");
    let keys = ["i16", "i64", "u8", "d9", "day", "low", "f32"];
    let key = *keys.choose(rng).expect("not empty");
    let (direction, nulls) = (["", " DESC"], [" NULLS FIRST", " NULLS LAST"]);
    let direction = *direction.choose(rng).expect("not empty");
    let nulls = *nulls.choose(rng).expect("not empty");
    let functions: Vec<String> = (0..rng.random_range(1..4))
        .map(|number| {
            let value = *["i8", "i32", "i64", "u64", "d9", "d38", "f64", "day"]
                .choose(rng)
                .expect("not empty");
            let number_of = *["i8", "i32", "i64", "u64", "d9", "d38", "f64"]
                .choose(rng)
                .expect("not empty");
            let call = match rng.random_range(0..11) {
                0 => "row_number()".to_owned(),
                1 => "rank()".to_owned(),
                2 => "dense_rank()".to_owned(),
                3 => format!("ntile({})", rng.random_range(1..9)),
                4 => format!("lag({value}, {})", rng.random_range(-3..4)),
                5 => format!("last_value({value})"),
                6 => format!("sum({number_of})"),
                7 => format!("count({value})"),
                8 => format!("min({value})"),
                9 => format!("max({value})"),
                _ => format!("nth_value({value}, {})", rng.random_range(1..5)),
            };
            let bounds = |rng: &mut SmallRng, most: i32| {
                let mut bound = || match rng.random_range(-most..=most) {
                    0 => (0, "CURRENT ROW".to_owned()),
                    at if at < 0 => (at, format!("{} PRECEDING", -at)),
                    at => (at, format!("{at} FOLLOWING")),
                };
                let mut both = [bound(), bound()];
                both.sort_by_key(|(at, _)| *at);
                let [start, end] = both.map(|(_, bound)| bound);
                match rng.random_range(0..4) {
                    0 => format!("UNBOUNDED PRECEDING AND {end}"),
                    1 => format!("{start} AND UNBOUNDED FOLLOWING"),
                    _ => format!("{start} AND {end}"),
                }
            };
            let unique = format!("ORDER BY {key}{direction}{nulls}, v");
            let window = match rng.random_range(0..4) {
                0 if ["rank()", "dense_rank()"].contains(&call.as_str()) => {
                    format!("ORDER BY {key}{direction}{nulls}")
                }
                0 => unique,
                1 => format!("{unique} ROWS BETWEEN {}", bounds(rng, 20)),
                2 => format!("{unique} GROUPS BETWEEN {}", bounds(rng, 6)),
                _ if ["sum", "cou", "min", "max"].contains(&&call[..3]) && ["i16", "u8"].contains(&key) => {
                    format!(
                        "ORDER BY {key}{direction}{nulls} RANGE BETWEEN {}",
                        bounds(rng, 30)
                    )
                }
                _ => format!("{unique} ROWS BETWEEN {}", bounds(rng, 3)),
            };
            format!("{call} OVER ({partition}{window}) AS c{number}")
        })
        .collect();
    let filter = *["", " WHERE i8 > 0", " WHERE flag"]
        .choose(rng)
        .expect("not empty");
    let rows = format!("SELECT v, k, {} FROM t{filter}", functions.join(", "));
    match rng.random_range(0..4) {
        0 => format!("SELECT k, count(*), count(c0), max(v) FROM ({rows}) WHERE v > 7 GROUP BY k"),
        1 => format!("SELECT * FROM ({rows}) WHERE c0 IS NOT NULL AND v % 3 = 0"),
        _ => rows,
    }
}

#[tokio::test]
async fn random_windows_match_the_cpu() {
    let first = environment::seed();
    for seed in first..first + 40 + environment::campaign() {
        let mut rng = SmallRng::seed_from_u64(seed);
        let shape = *[Shape::Ordinary, Shape::Ordinary, Shape::Skewed, Shape::AllEqual]
            .choose(&mut rng)
            .expect("not empty");
        let rows = *[1, 33, 300, 900].choose(&mut rng).expect("not empty");
        let chunk_rows = rng.random_range(30..900).to_string();
        let pair = Pair::new(&[STRICT, ("galatea.tuning.chunk_rows", &chunk_rows)]);
        pair.table("t", &[batch(rows, rng.random(), shape)]);
        let sql = random_query(&mut rng);
        check(&pair, &sql, &format!("seed {seed}: {rows} rows, {shape:?}")).await;
    }
}

/// Rows fill the levels of a tree of frames exactly, or differ from that by one.
#[tokio::test]
async fn frame_trees_of_any_size_are_aggregated() {
    let pair = Pair::new(&[]);
    pair.table("t", &[batch(4200, 3, Shape::Ordinary)]);
    for rows in [
        0, 1, 15, 16, 17, 240, 241, 255, 256, 257, 272, 4080, 4081, 4095, 4096, 4097,
    ] {
        let numbered = format!(
            "(SELECT *, row_number() OVER (ORDER BY i64, i32, v) AS place FROM t) AS n WHERE place <= {rows}"
        );
        let sql = format!(
            "SELECT min(k) OVER () AS a, max(d18) OVER () AS b, max(f64) OVER (ORDER BY place ROWS 15 PRECEDING) AS c,
                    min(i32) OVER (ORDER BY place ROWS BETWEEN CURRENT ROW AND 255 FOLLOWING) AS d, place
             FROM {numbered}"
        );
        pair.check(&sql, true, &format!("{rows} rows")).await;
    }
}
