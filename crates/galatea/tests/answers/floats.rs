//! NaN, zeros of both signs, and moments of large close values.

use crate::{DEVICES, check, session};
use datafusion::arrow::array::{ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch};
use datafusion::datasource::MemTable;
use std::sync::Arc;

/// NaNs of several bit patterns, zeros of both signs, and others, in groups with NaN first and last.
fn floats() -> RecordBatch {
    let negative = f64::from_bits(0xfff8_0000_0000_0000);
    let payload = f64::from_bits(0x7ff8_0000_0000_0123);
    let g: ArrayRef = Arc::new(Int64Array::from(vec![1, 1, 1, 2, 2, 3, 3, 4, 4, 4]));
    let v = [
        negative,
        1.0,
        payload,
        2.0,
        f64::NAN,
        -0.0,
        0.0,
        payload,
        negative,
        f64::NAN,
    ];
    let w: ArrayRef = Arc::new(Float32Array::from_iter_values(v.iter().map(|v| *v as f32)));
    let v: ArrayRef = Arc::new(Float64Array::from_iter_values(v));
    RecordBatch::try_from_iter([("g", g), ("v", v), ("w", w)]).expect("columns of one length")
}

async fn check_floats(queries: &[(&str, &[&str])]) {
    for device in DEVICES {
        for (partitions, order) in [(1, [0, 1]), (4, [1, 0])] {
            let ctx = session(device, partitions);
            let batch = floats();
            let halves = [batch.slice(0, 5), batch.slice(5, 5)];
            let parts = order.map(|at| vec![halves[at].clone()]).to_vec();
            let table = MemTable::try_new(batch.schema(), parts).expect("batches of one schema");
            ctx.register_table("t", Arc::new(table)).expect("a new table");
            for (sql, expected) in queries {
                check(&ctx, sql, expected, &format!("{device}, {partitions} partitions")).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nan_is_one_value_and_zero_another() {
    check_floats(&[
        ("SELECT count(DISTINCT v), count(DISTINCT w) FROM t", &["4, 4"]),
        (
            "SELECT count(DISTINCT v), count(DISTINCT g), sum(DISTINCT g) FROM t",
            &["4, 4, 10"],
        ),
        ("SELECT count(*) FROM (SELECT DISTINCT v FROM t) q", &["4"]),
        ("SELECT count(*) FROM (SELECT DISTINCT g, w FROM t) q", &["6"]),
        (
            "SELECT isnan(v) AS n, count(*) AS c FROM t GROUP BY v",
            &["false, 1", "false, 1", "false, 2", "true, 6"],
        ),
        (
            "SELECT g, count(DISTINCT v) AS c FROM t GROUP BY g",
            &["1, 2", "2, 2", "3, 1", "4, 1"],
        ),
        (
            "SELECT count(*) FROM (SELECT v FROM t UNION SELECT v FROM t) q",
            &["4"],
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nan_is_above_all_values() {
    check_floats(&[
        (
            "SELECT g, min(v) + 0 AS lo, max(v) + 0 AS hi FROM t GROUP BY g",
            &["1, 1.0, NaN", "2, 2.0, NaN", "3, 0.0, 0.0", "4, NaN, NaN"],
        ),
        (
            "SELECT g, min(w) + 0 AS lo, max(w) + 0 AS hi FROM t GROUP BY g",
            &["1, 1.0, NaN", "2, 2.0, NaN", "3, 0.0, 0.0", "4, NaN, NaN"],
        ),
        (
            "SELECT min(v) + 0, max(v), min(w) + 0, max(w) FROM t",
            &["0.0, NaN, 0.0, NaN"],
        ),
        ("SELECT min(v), max(v) FROM t WHERE g < 0", &["NULL, NULL"]),
        (
            "SELECT min(v) FILTER (WHERE g < 3), max(v) FILTER (WHERE g = 2) FROM t",
            &["1.0, NaN"],
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn moments_of_large_close_values_are_right() {
    let statements = [
        "CREATE TABLE t AS SELECT value % 2 AS g, CAST(1e16 AS DOUBLE) + 2 * CAST(value / 2 AS DOUBLE) AS v, CAST(value / 2 AS DOUBLE) AS x FROM generate_series(0, 3)",
        "CREATE TABLE n AS SELECT 10000000000000000 + 2 * value AS v FROM generate_series(0, 1)",
    ];
    for device in DEVICES {
        for partitions in [1, 4] {
            let ctx = session(device, partitions);
            crate::prepare(&ctx, &statements).await;
            let context = format!("{device}, {partitions} partitions");
            for (sql, expected) in [
                (
                    "SELECT var_pop(v), var_samp(v), stddev_pop(v), covar_pop(v, v), covar_samp(v, x) FROM t WHERE g = 0",
                    &["1.0, 2.0, 1.0, 1.0, 1.0"][..],
                ),
                (
                    "SELECT corr(v, x), regr_slope(v, x), regr_r2(v, x), regr_sxx(x, v) FROM t",
                    &["1.0, 2.0, 1.0, 4.0"],
                ),
                (
                    "SELECT g, var_pop(v) AS p, var_samp(v) AS s FROM t GROUP BY g",
                    &["0, 1.0, 2.0", "1, 1.0, 2.0"],
                ),
                ("SELECT var_pop(v), var_samp(v) FROM n", &["1.0, 2.0"]),
                (
                    "SELECT var_samp(v) OVER (PARTITION BY g) AS s FROM t",
                    &["2.0", "2.0", "2.0", "2.0"],
                ),
                ("SELECT var_samp(v) FROM t WHERE v <= 1e16 AND g = 0", &["NULL"]),
                (
                    "SELECT var_pop(v), corr(v, x), regr_slope(v, x) FROM t WHERE v <= 1e16 AND g = 0",
                    &["0.0, NULL, NULL"],
                ),
                (
                    "SELECT var_pop(v), covar_pop(v, x) FROM t WHERE v < 0",
                    &["NULL, NULL"],
                ),
            ] {
                check(&ctx, sql, expected, &context).await;
            }
        }
    }
}
