//! Aggregates in classes: the device finds the rows that a call depends on, in addition to the aggregates of
//! pipelines.

use crate::compare::Pair;
use crate::data::{Shape, batch};
use crate::joins::text;
use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use std::sync::Arc;

const QUERIES: &[&str] = &[
    // Medians.
    "SELECT k, median(i16) FROM t GROUP BY k",
    "SELECT low, median(d9), median(f64), count(*), sum(i32) FROM t GROUP BY low",
    "SELECT median(i64), median(u8), median(d38) FROM t",
    "SELECT k, median(i32) FILTER (WHERE flag), median(f32 + 1) FROM t GROUP BY k",
    "SELECT median(i8) FROM t WHERE v < -10",
    "SELECT day, median(i8) FROM t GROUP BY day",
    // Percentiles.
    "SELECT k, percentile_cont(f64, 0.3), percentile_cont(f32, 0.95), count(*) FROM t GROUP BY k",
    "SELECT percentile_cont(0.25) WITHIN GROUP (ORDER BY i16), percentile_cont(0.1) WITHIN GROUP (ORDER BY f64 DESC) FROM t",
    "SELECT low, percentile_cont(d9, 0.5) FILTER (WHERE flag), percentile_cont(i8, 0.999999) FROM t GROUP BY low",
    // First and last values of an order without ties.
    "SELECT k, first_value(i32 ORDER BY v), last_value(low ORDER BY v) FROM t GROUP BY k",
    "SELECT low, first_value(d38 ORDER BY i16 DESC, v) FROM t GROUP BY low",
    "SELECT first_value(high ORDER BY v DESC), count(DISTINCT low) FROM t",
    "SELECT k, first_value(i64 ORDER BY v) FILTER (WHERE flag), last_value(i64 ORDER BY v) FILTER (WHERE i8 > 0) FROM t GROUP BY k",
    "SELECT k, first_value(low IGNORE NULLS ORDER BY v), max(i32) FROM t GROUP BY k",
    "SELECT k, last_value(i16 ORDER BY f64 NULLS FIRST, v), avg(d9) FROM t GROUP BY k",
    // Rows at a distance from either end of an order.
    "SELECT k, nth_value(i32, 2 ORDER BY v), nth_value(low, -3 ORDER BY v DESC), count(*) FROM t GROUP BY k",
    "SELECT nth_value(i64, 33 ORDER BY i16, v), nth_value(i64, -1 ORDER BY v), nth_value(i64, 100000 ORDER BY v) FROM t",
    // All rows, in order.
    "SELECT k, array_agg(i32 ORDER BY v), sum(i8) FROM t GROUP BY k",
    "SELECT array_agg(low ORDER BY i16 DESC, v), array_agg(v ORDER BY v) FROM t",
    "SELECT low, array_agg(v ORDER BY v DESC), array_agg(i8 ORDER BY f64 NULLS FIRST, v), count(DISTINCT i8) FROM t GROUP BY low",
    "SELECT k, flag, string_agg(high, ', ' ORDER BY v), count(*) FROM t GROUP BY k, flag",
    "SELECT k, array_agg(i32 ORDER BY v) FILTER (WHERE flag), array_agg(d9 IGNORE NULLS ORDER BY v) FROM t GROUP BY k",
    "SELECT k, array_agg(v ORDER BY k DESC, v DESC), median(i8) FROM t GROUP BY k",
    "SELECT array_agg(i8 ORDER BY v) FROM t WHERE v < -10",
    // Distinct values, in their own order.
    "SELECT array_agg(DISTINCT i8 ORDER BY i8 DESC NULLS LAST), count(*) FROM t",
    "SELECT k, string_agg(DISTINCT low, '|' ORDER BY low), array_agg(DISTINCT day ORDER BY day), sum(i16) FROM t GROUP BY k",
    "SELECT flag, array_agg(DISTINCT low IGNORE NULLS ORDER BY low NULLS FIRST) FROM t GROUP BY flag",
    // Functions that do not depend on their ORDER BY.
    "SELECT sum(i16 ORDER BY v), count(*) FROM t",
    // Any value that is not NULL, if one exists.
    "SELECT k, any_value(k % 3), any_value(CASE WHEN v % 2 = 0 THEN k END), count(*) FROM t GROUP BY k",
    "SELECT low, any_value(low), any_value(upper(low)) FILTER (WHERE i8 > 0) FROM t GROUP BY low",
    // Distinct values.
    "SELECT k, approx_distinct(i16), count(*) FROM t GROUP BY k",
    "SELECT approx_distinct(i64), approx_distinct(low), approx_distinct(high) FROM t",
    "SELECT low, approx_distinct(day) FILTER (WHERE flag) FROM t GROUP BY low",
    // Several arguments with DISTINCT.
    "SELECT k, count(DISTINCT i8), count(DISTINCT low), sum(DISTINCT i16), count(*) FROM t GROUP BY k",
    "SELECT count(DISTINCT i8), count(DISTINCT i16), count(DISTINCT high), min(v) FROM t",
    "SELECT flag, low, avg(DISTINCT i16), count(DISTINCT view) FILTER (WHERE i8 > 0), count(DISTINCT i8) FROM t GROUP BY flag, low",
    // Float keys: a single class needs no join.
    "SELECT f32, median(i8) FROM t GROUP BY f32",
    // Above and below other operators.
    "SELECT k, m * 2 FROM (SELECT k, median(i16) AS m, sum(i8) AS s FROM t GROUP BY k HAVING count(*) > 2) WHERE s > 0",
    "SELECT t.k, median(u.i32), count(DISTINCT u.low), count(DISTINCT t.low) FROM t JOIN t u ON t.v = u.v GROUP BY t.k",
];

async fn all(rows: usize, seed: u64, shape: Shape, settings: &[(&str, &str)]) {
    let pair = Pair::new(settings);
    pair.table("t", &[batch(rows, seed, shape)]);
    for sql in QUERIES {
        pair.check(sql, true, &format!("{shape:?}, {rows} rows, {settings:?}"))
            .await;
    }
}

#[tokio::test]
async fn results_match_the_cpu() {
    all(800, 1, Shape::Ordinary, &[("galatea.tuning.chunk_rows", "128")]).await;
    all(300, 2, Shape::Skewed, &[]).await;
}

#[tokio::test]
async fn all_null_groups_match_the_cpu() {
    for rows in [1, 2, 33] {
        all(rows, 3, Shape::AllNull, &[]).await;
    }
    all(50, 4, Shape::AllEqual, &[]).await;
}

/// Classes that need no function of the CPU are joined on the device.
#[tokio::test]
async fn classes_of_pipelines_are_one_subtree() {
    let pair = Pair::new(&[]);
    pair.table("t", &[batch(2000, 1, Shape::Ordinary)]);
    for sql in [
        "SELECT k, median(i16), sum(i32) FROM t GROUP BY k",
        "SELECT median(f32), median(f64), stddev(f64) FROM t",
        "SELECT low, median(d9), median(d18), count(*) FROM t GROUP BY low",
        "SELECT k, percentile_cont(f64, 0.3), count(*) FROM t GROUP BY k",
        "SELECT k, first_value(low ORDER BY v), last_value(i32 ORDER BY v), any_value(high) FROM t GROUP BY k",
        "SELECT k, count(DISTINCT i8), count(DISTINCT low), sum(d9) FROM t GROUP BY k",
        "SELECT k, m, s FROM (SELECT k, median(i16) AS m, sum(i8) AS s FROM t GROUP BY k) WHERE m > 0 ORDER BY m, k",
    ] {
        let plan = text(&pair, &format!("EXPLAIN {sql}")).await;
        assert_eq!(plan.matches("GpuExec").count(), 1, "{sql}\n{plan}");
        for name in ["AggregateExec", "HashJoinExec", "CrossJoinExec"] {
            assert!(!plan.contains(name), "{sql}\n{plan}");
        }
    }
}

/// The median of decimals with 38 digits is computed by the CPU, which receives one or two rows of each
/// group.
#[tokio::test]
async fn cpu_receives_few_rows_per_group() {
    let pair = Pair::new(&[]);
    pair.table("t", &[batch(2000, 1, Shape::Ordinary)]);
    let plan = text(&pair, "EXPLAIN SELECT k, median(d38), sum(i32) FROM t GROUP BY k").await;
    assert_eq!(plan.matches("GpuExec").count(), 2, "{plan}");
    assert!(plan.contains("row_number"), "{plan}");
    // Float keys: the two classes cannot be joined.
    let plan = text(
        &pair,
        "EXPLAIN SELECT f32, median(i16), sum(i32) FROM t GROUP BY f32",
    )
    .await;
    assert!(!plan.contains("GpuExec"), "{plan}");
}

/// Medians of NaN, infinities, both zeros, values whose sum is infinite, and groups without values.
#[tokio::test]
async fn medians_of_special_floats() {
    let pair = Pair::new(&[("galatea.fallback", "error")]);
    let groups: [&[Option<f64>]; 9] = [
        &[Some(f64::NAN)],
        &[Some(1.0), Some(f64::NAN)],
        &[Some(1.0), Some(2.0), Some(f64::NAN)],
        &[Some(f64::INFINITY), Some(f64::NEG_INFINITY)],
        &[Some(-0.0)],
        &[Some(f64::MAX), Some(f64::MAX)],
        &[Some(f64::MAX), None],
        &[None, None],
        &[Some(3.5), None, Some(1.5), Some(2.25), Some(-7.0)],
    ];
    let rows = groups.iter().enumerate();
    let rows = || {
        rows.clone()
            .flat_map(|(group, values)| values.iter().map(move |value| (group as i64, *value)))
    };
    let keys: ArrayRef = Arc::new(rows().map(|(group, _)| group).collect::<Int64Array>());
    let values: ArrayRef = Arc::new(rows().map(|(_, value)| value).collect::<Float64Array>());
    let table = RecordBatch::try_from_iter([("g", keys), ("x", values)]).expect("columns of one length");
    pair.table("t", &[table]);
    for sql in [
        "SELECT g, median(x), count(*) FROM t GROUP BY g",
        "SELECT g, median(CAST(x AS REAL)), sum(g) FROM t WHERE g NOT IN (5, 6) GROUP BY g",
        "SELECT median(x), count(x) FROM t WHERE g = 7",
        "SELECT median(x), count(x) FROM t WHERE g > 100",
    ] {
        pair.check(sql, true, "special floats").await;
    }
}

/// The device sorts the rows, not the CPU. They arrive in the order of the call.
#[tokio::test]
async fn ordered_aggregate_input_is_sorted_on_the_device() {
    let pair = Pair::new(&[]);
    pair.table("t", &[batch(2000, 1, Shape::Ordinary)]);
    let plan = text(
        &pair,
        "EXPLAIN SELECT k, array_agg(i16 ORDER BY v) FROM t GROUP BY k",
    )
    .await;
    assert!(plan.contains("GpuExec") && !plan.contains("SortExec"), "{plan}");
    // A computed key is a column of a projection.
    let plan = text(
        &pair,
        "EXPLAIN SELECT k, array_agg(i16 ORDER BY v % 7, i16) FROM t GROUP BY k",
    )
    .await;
    assert!(plan.contains("GpuExec"), "{plan}");
    for key in ["v % 7, i16", "abs(v) DESC, i16, k"] {
        let sql = format!("SELECT k, array_agg(i16 ORDER BY {key}) FROM t GROUP BY k");
        pair.check(&sql, true, "computed keys").await;
    }
}
