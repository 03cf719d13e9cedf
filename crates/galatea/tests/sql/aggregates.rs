//! Scalar and grouped aggregates.

use crate::compare::Pair;
use crate::data::{Shape, batch};
use crate::joins::STRICT;
use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use std::sync::Arc;

const QUERIES: &[&str] = &[
    "SELECT count(*) FROM t WHERE v >= 0",
    "SELECT count(*), count(i32), sum(i32), min(i32), max(i32), avg(i32) FROM t",
    "SELECT sum(i8), sum(i16), sum(i64), sum(u8), sum(u32), sum(u64) FROM t",
    "SELECT sum(d9), sum(d18), sum(d38), avg(d9), avg(d18), min(d9), max(d18) FROM t",
    "SELECT sum(f32), sum(f64), avg(f64), min(f32), max(f64) FROM t",
    "SELECT min(day), max(day), min(ts), max(ts), min(low), max(low), min(view), max(view) FROM t",
    "SELECT min(u64), max(u64), min(i64), max(i64) FROM t",
    "SELECT sum(d9 * (1 - d9)), sum(d9 * d18) FROM t WHERE d9 BETWEEN -5000.00 AND 5000.00",
    "SELECT count(*) FILTER (WHERE flag), sum(i32) FILTER (WHERE i32 > 0 AND flag) FROM t",
    // Counts of rows without NULL.
    "SELECT count(i8, low), count(v, i16, flag) FILTER (WHERE i8 > 0), count(*) FROM t",
    "SELECT k, count(f64, d9), arrow_typeof(k), max(greatest(f32, 0)), min(least(f64, f64 * -1, 1.5)) FROM t GROUP BY k",
    // Sums that differ in a constant share accumulators.
    "SELECT sum(i16), sum(i16 + 1), sum(2 + i16), sum(i16 - 3), sum(10 - i16), sum(v + 5), sum(v + 6) FILTER (WHERE flag) FROM t",
    "SELECT k, sum(i64 + 9223372036854775807), sum(i64 - 5), count(i64), sum(v + 1), sum(v + 2) FROM t GROUP BY k",
    "SELECT k, count(*), sum(v) FROM t GROUP BY k",
    "SELECT low, count(*), sum(d9), min(i64), max(f64) FROM t GROUP BY low",
    "SELECT low, flag, count(*), avg(d18) FROM t WHERE i32 IS NOT NULL GROUP BY low, flag",
    "SELECT view, k, sum(i32) FROM t GROUP BY view, k",
    "SELECT i32, count(*), sum(i16) FROM t GROUP BY i32",
    "SELECT i64, u64, count(*) FROM t GROUP BY i64, u64",
    "SELECT high, count(*), min(high) FROM t GROUP BY high",
    "SELECT d38, count(*) FROM t GROUP BY d38",
    "SELECT f64, count(*) FROM t GROUP BY f64",
    "SELECT f32, day, count(*) FROM t GROUP BY f32, day",
    "SELECT i8, u8, i16, count(*), sum(d38) FROM t GROUP BY i8, u8, i16",
    "SELECT extract(year FROM day) AS y, date_trunc('month', day) AS m, count(*) FROM t GROUP BY y, m",
    "SELECT CASE WHEN i32 > 0 THEN 'pos' WHEN i32 < 0 THEN 'neg' ELSE 'none' END AS s, count(*) FROM t GROUP BY s",
    "SELECT DISTINCT low, k FROM t",
    "SELECT k, count(DISTINCT low), count(DISTINCT i16) FROM t GROUP BY k",
    "SELECT low, sum(v) AS s FROM t GROUP BY low HAVING sum(v) > 10 ORDER BY s DESC LIMIT 3",
    "SELECT substring(low, 1, 2) AS p, count(*) FROM t WHERE low LIKE '%A%' OR low IS NULL GROUP BY p",
    "SELECT count(*) FROM t WHERE high LIKE 'a%e' OR high LIKE '%bb%' OR high NOT LIKE '%c%'",
    "SELECT count(*) FROM t WHERE low IN ('AIR', 'RAIL', 'nowhere') AND k NOT IN (1, 3)",
    "SELECT sum(v) FROM t WHERE coalesce(i32, 0) + coalesce(i16, 1) * 2 > 10 AND NOT (flag IS TRUE)",
    "SELECT count(*), sum(v) FROM t WHERE v < -1000",
    "SELECT k, sum(v) FROM t WHERE v < -1000 GROUP BY k",
    // Correlations of floats, and squares that may exceed 128 bits, stay on the CPU.
    "SELECT var(i64), stddev(u64), var(d38), var(f64), corr(f32, v), regr_avgx(f64, v) FROM t",
    "SELECT k, stddev(i64), var(v) FROM t GROUP BY k",
    "SELECT k, var(f64), count(DISTINCT i8), sum(DISTINCT i16), max(low) FROM t GROUP BY k",
    "SELECT f32, var(f64), count(*) FROM t GROUP BY f32",
    "SELECT low, stddev(f32), median(i16), approx_distinct(i8) FROM t GROUP BY low",
];

/// Unsigned 64-bit numbers leave no sentinel for missing values. Groups that stay on the device are tested,
/// too.
#[tokio::test]
async fn min_and_max_of_unsigned_integers() {
    // If all values are NULL, statistics may contain the answer.
    for (shape, runs) in [(Shape::Ordinary, true), (Shape::AllNull, false)] {
        let pair = Pair::new(&[STRICT]);
        pair.table("t", &[batch(3000, 17, shape)]);
        for sql in [
            "SELECT min(u64), max(u64) FROM t WHERE i8 < 100",
            "SELECT k, min(u64), max(u64), max(u64) FILTER (WHERE flag) FROM t GROUP BY k",
            "SELECT min(u64), max(u64 - 1) FROM t WHERE u64 > 9223372036854775807",
            "SELECT min(u64), max(u64) FROM t WHERE i8 < 0 AND i8 > 0 AND flag",
            "SELECT k, max(u64) AS m FROM t GROUP BY k HAVING max(u64) > 9223372036854775808 ORDER BY m DESC LIMIT 3",
            "SELECT count(*), max(t.u64 - g.least) FROM t JOIN (SELECT k, min(u64) AS least, max(u64) AS most FROM t GROUP BY k) g ON t.k = g.k AND t.u64 < g.most",
            "SELECT k, u64 FROM (SELECT k, u64, max(u64) OVER (PARTITION BY k) AS most FROM t) WHERE u64 = most",
        ] {
            pair.check(sql, runs, &format!("{shape:?}")).await;
        }
    }
}

#[tokio::test]
async fn aggregates_match_the_cpu_at_every_size() {
    for (rows, shape) in [
        (0, Shape::Ordinary),
        (1, Shape::Ordinary),
        (31, Shape::Ordinary),
        (32, Shape::AllNull),
        (33, Shape::Ordinary),
        (255, Shape::AllEqual),
        (257, Shape::Skewed),
        (2047, Shape::Ordinary),
        (5000, Shape::Ordinary),
    ] {
        let pair = Pair::new(&[]);
        let data = batch(rows, 11 + rows as u64, shape);
        pair.table("t", &[data]);
        for sql in QUERIES {
            pair.check(sql, false, &format!("{rows} rows, {shape:?}")).await;
        }
    }
}

/// Each of these runs on the device, or the test fails.
const ON_DEVICE: &[&str] = &[
    "SELECT bool_and(flag), bool_or(flag), min(flag), max(flag), bool_and(v > 0) FILTER (WHERE flag) FROM t",
    "SELECT k, bool_and(flag), bool_or(i32 > 0), bool_or(DISTINCT flag) FROM t GROUP BY k",
    "SELECT bit_and(i64), bit_or(i64), bit_xor(i64), bit_and(u64), bit_or(u64), bit_xor(u64) FROM t",
    "SELECT low, bit_and(i8), bit_or(i16), bit_xor(i32), bit_and(u8), bit_xor(u32) FILTER (WHERE flag) FROM t GROUP BY low",
    "SELECT i64, bit_and(v), bit_xor(u64), bool_and(flag) FROM t GROUP BY i64",
    "SELECT var(v), var_pop(i32), stddev(i16), stddev_pop(d9), covar_samp(v, i16), covar_pop(i32, d9), corr(v, i16) FROM t",
    "SELECT k, var(i32), stddev(d18), corr(i16, i8), regr_slope(v, i16), regr_intercept(v, i8), regr_count(f64, i8) FROM t GROUP BY k",
    "SELECT low, regr_r2(v, i16), regr_avgx(v, i16), regr_avgy(v, d9), regr_sxx(v, i16), regr_syy(v, i16), regr_sxy(v, i16) FROM t GROUP BY low",
    "SELECT i32, stddev(v), var(d9 * 2), regr_count(v, f32) FROM t GROUP BY i32",
    "SELECT k, low, stddev(i32) FILTER (WHERE flag), var_pop(i16 + i8) FROM t GROUP BY ROLLUP (k, low)",
    // Floats: distances from means.
    "SELECT var(f64), var_pop(f32), stddev(f64), stddev_pop(f64), covar_samp(f64, f32), covar_pop(f64, v), regr_slope(f64, i16), count(*), sum(v) FROM t",
    "SELECT k, var(f64), stddev(i32), regr_slope(f64, f32), regr_intercept(v, f64), regr_r2(f64, f32), regr_count(f64, f32), avg(f64) FROM t GROUP BY k",
    "SELECT low, regr_avgx(f64, f32), regr_avgy(f64, f32), regr_sxx(f64, v), regr_syy(f64, f32), regr_sxy(f32, f64), min(high) FROM t GROUP BY low",
    "SELECT k, low, var(f64) FILTER (WHERE flag), stddev(f32 * 2), var(f64) FROM t GROUP BY ROLLUP (k, low)",
    "SELECT s, count(*) FROM (SELECT i8, stddev(f64) > 100 AS s FROM t WHERE v > 3 GROUP BY i8 HAVING count(*) > 1) GROUP BY s",
    // Grouping sets, with NULL as a key and in place of keys.
    "SELECT k, low, count(*), sum(v), avg(d18), min(high) FROM t GROUP BY ROLLUP (k, low)",
    "SELECT k, low, flag, count(*), sum(i32), grouping(k), grouping(low, flag) FROM t GROUP BY CUBE (k, low, flag)",
    "SELECT k, low, sum(v), grouping(k) + grouping(low) AS level FROM t GROUP BY GROUPING SETS ((k), (low), (k, low), ())",
    "SELECT k, low, count(*) FROM t GROUP BY GROUPING SETS ((k), (low), (k), (k))",
    "SELECT low, i16 % 3 AS m, max(i64), count(DISTINCT i8) FROM t WHERE v > 3 GROUP BY ROLLUP (low, i16 % 3)",
    "SELECT k, sum(v) FROM t WHERE v < -1000 GROUP BY ROLLUP (k)",
    "SELECT k, low, grouping(k) AS g FROM t GROUP BY CUBE (k, low)",
    "SELECT k FROM t WHERE v < -1000 GROUP BY ROLLUP (k)",
    "SELECT k, view, count(i32) FILTER (WHERE flag) FROM t GROUP BY GROUPING SETS ((k, view), (view))",
    "SELECT i64, u64, sum(v) FROM t GROUP BY CUBE (i64, u64)",
    "SELECT k, flag, s FROM (SELECT k, flag, sum(v) AS s FROM t GROUP BY CUBE (k, flag)) WHERE s > 10",
];

#[tokio::test]
async fn device_only_aggregates_match_the_cpu_at_every_size() {
    for (rows, shape, seed) in [
        (0, Shape::Ordinary, 1),
        (1, Shape::Ordinary, 2),
        (31, Shape::AllNull, 3),
        (32, Shape::Ordinary, 4),
        (33, Shape::Skewed, 5),
        (256, Shape::AllEqual, 6),
        (3000, Shape::Ordinary, 7),
    ] {
        let pair = Pair::new(&[STRICT]);
        pair.table("t", &[batch(rows, seed, shape)]);
        for sql in ON_DEVICE {
            let context = format!("{rows} rows, {shape:?}, seed {seed}");
            pair.check(sql, false, &context).await;
        }
    }
}

/// Groups 0 to 5: equal values with a mean different from them, values far from zero and close together, one
/// value, no value, NaN, an infinity.
#[tokio::test]
async fn float_deviations_are_numerically_stable() {
    let pair = Pair::new(&[STRICT, ("galatea.tuning.chunk_rows", "64")]);
    let value = |group: i64, row: i64| match group {
        0 => Some(0.1),
        1 => Some(1e3 + (row * 7919 % 1013) as f64 * 1e-3),
        2 if row == 2 => Some(-7.25),
        4 => Some(if row == 34 { f64::NAN } else { row as f64 }),
        5 => Some(if row == 35 { f64::INFINITY } else { row as f64 }),
        _ => None,
    };
    let rows = || (0..3000).map(|row| (row % 6, row));
    let groups: ArrayRef = Arc::new(Int64Array::from_iter_values(rows().map(|(group, _)| group)));
    let values: ArrayRef = Arc::new(
        rows()
            .map(|(group, row)| value(group, row))
            .collect::<Float64Array>(),
    );
    let others: ArrayRef = Arc::new(
        rows()
            .map(|(_, row)| (row % 11 > 0).then_some(row as f64 * 0.37))
            .collect::<Float64Array>(),
    );
    let batch = RecordBatch::try_from_iter([("g", groups), ("x", values), ("y", others)]);
    pair.table("t", &[batch.expect("columns of one length")]);
    for sql in [
        "SELECT g, var(x), var_pop(x), stddev(x), stddev_pop(x), covar_pop(x, y), regr_sxx(y, x) FROM t GROUP BY g",
        "SELECT g, regr_slope(y, x), regr_intercept(x, y), regr_r2(x, y), regr_count(y, x) FROM t WHERE g < 4 GROUP BY g",
        "SELECT var(x), stddev(y), covar_samp(y, x) FROM t WHERE g < 4",
        "SELECT var(x) FROM t WHERE g = 0",
        "SELECT stddev(x), regr_r2(x, y), regr_slope(x, y) FROM t WHERE g = 3",
    ] {
        pair.check(sql, true, "floats").await;
    }
}

async fn rows(ctx: &SessionContext, sql: &str) -> usize {
    let batches = ctx.sql(sql).await.expect("plans").collect().await.expect("runs");
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// An input that could return different rows to each grouping set is read once, on the CPU.
#[tokio::test]
async fn grouping_sets_of_volatile_rows_stay_on_the_cpu() {
    let pair = Pair::new(&[]);
    pair.table("t", &[batch(3000, 5, Shape::Ordinary)]);
    for sql in [
        "SELECT k, count(*) FROM (SELECT k FROM t LIMIT 100) GROUP BY ROLLUP (k)",
        "SELECT k, count(*) FROM t WHERE random() < 2 GROUP BY ROLLUP (k)",
    ] {
        let plan = format!("EXPLAIN {sql}");
        let batches = pair.gpu.sql(&plan).await.expect("plans").collect().await;
        let text = pretty_format_batches(&batches.expect("explains")).expect("prints");
        assert!(text.to_string().contains("rows that may change"), "{sql}\n{text}");
        let (cpu, gpu) = (rows(&pair.cpu, sql).await, rows(&pair.gpu, sql).await);
        assert_eq!(cpu, gpu, "{sql}");
    }
}

#[tokio::test]
async fn aggregates_run_on_the_device() {
    let pair = Pair::new(&[]);
    pair.table("t", &[batch(3000, 5, Shape::Ordinary)]);
    for sql in [
        "SELECT count(*) FROM t WHERE v >= 0",
        "SELECT sum(d9 * (1 - d9)), avg(d18) FROM t WHERE day >= '1994-01-01'",
        "SELECT low, flag, count(*), sum(d9) FROM t GROUP BY low, flag",
        "SELECT i64, u64, count(*) FROM t GROUP BY i64, u64",
        "SELECT substring(low, 1, 2) AS p, count(*) FROM t WHERE low LIKE '%A%' GROUP BY p",
    ] {
        pair.check(sql, true, "must be placed").await;
    }
}

/// A plan of CPU operators feeds rows without columns to the same pipeline, with a different row count each
/// time.
#[tokio::test]
async fn row_counts_without_columns_are_not_cached() {
    let pair = Pair::new(&[("galatea.tuning.min_rows", "0")]);
    let one: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    pair.table("one", &[RecordBatch::try_from_iter([("k", one)]).expect("a row")]);
    for rows in [0, 3, 1, 100, 7] {
        let unnested = format!("SELECT count(*) FROM (SELECT unnest(range(0, {rows})) AS x FROM one)");
        pair.check(&unnested, rows > 0, "rows without columns").await;
        let series = format!("SELECT count(*) FROM generate_series(1, {rows})");
        pair.check(&series, false, "rows without columns").await;
    }
}
